"""Graphics rows: existing chips, consistent values."""

from __future__ import annotations

import pytest

from gpuyard.catalog.graphics import GraphicsEngine
from gpuyard.catalog.load import load_catalog

CATALOG = load_catalog()
ROWS = {engine.name: engine for engine in CATALOG.graphics}


@pytest.mark.parametrize("engine", CATALOG.graphics, ids=lambda engine: engine.name)
def test_graphics_row_is_consistent(engine: GraphicsEngine) -> None:
    chip = CATALOG.chip(engine.name)
    assert chip.kind == "gpu"
    if engine.nvenc_count:
        assert engine.encode_frames_per_s
        assert engine.stream_frames_per_s
        assert (
            engine.stream_frames_per_s > engine.encode_frames_per_s
        )  # low latency costs less than quality
    if engine.vws == "yes":
        assert engine.display_count == 4
        assert engine.display_pixel_count == 2 * 7680 * 4320
    if engine.vws_usd_per_hour is not None:
        assert engine.vws == "yes"


def test_graphics_values_match_sources() -> None:
    assert (ROWS["l4"].nvenc_count, ROWS["l4"].nvdec_count) == (2, 4)
    assert (ROWS["t4"].nvenc_count, ROWS["t4"].nvdec_count) == (1, 2)
    assert (ROWS["rtx-pro-6000"].nvenc_count, ROWS["rtx-pro-6000"].rt_core_generation) == (4, 4)
    assert ROWS["h100-sxm"].nvenc_count == 0
    assert ROWS["a100-80gb"].rt_core_generation == 0


def test_google_graphics_series_have_rows() -> None:
    row = next(row for row in CATALOG.guidance if row.task == "graphics")
    chips = {machine.chip for machine in CATALOG.machines if machine.series in row.series}
    assert chips <= set(ROWS)
    assert all(ROWS[chip].vws == "yes" for chip in chips if chip)
