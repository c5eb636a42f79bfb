"""Chips of the kernel models: rows that fit the catalog and the calibration, and no rate that is guessed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_args

import pytest

from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.chip_kernels import (
    FORMATS,
    ChipKernels,
    Precision,
    calibrated,
    peak_flop_per_s,
    power_speed,
    ratio_keys,
    read_silicon,
    silicon_named,
    silicon_of,
    training_chip,
)

from .cases import CATALOG, number

ROWS = read_silicon()
CALIBRATION = read_calibration()
NAMES = {chip.name for chip in CATALOG.chips}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows_refer_to_what_exists(row: ChipKernels) -> None:
    assert row.chip in NAMES
    re.compile(row.match)
    assert row.torus_axes >= 1
    assert row.power_gain_ratio >= 1.0 or not row.calibrated
    assert row.sm_count >= 0
    chip = CATALOG.chip(row.chip)
    assert (chip.kind in ("tpu", "npu")) == (row.generation == "tpu")
    for precision in get_args(Precision):
        if peak_flop_per_s(chip, precision) is None:
            continue
        gemm, half, factor = ratio_keys(row, precision)
        assert {gemm, half, factor} - {""} <= set(CALIBRATION.ratios), precision


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_calibrated_rates_stay_below_the_peak(row: ChipKernels) -> None:
    chip = CATALOG.chip(row.chip)
    for precision in get_args(Precision):
        peak = peak_flop_per_s(chip, precision)
        if peak is None:
            continue
        bare = training_chip(row, chip, precision, 8, 50e9)
        found = calibrated(bare, row, precision, CALIBRATION)
        assert bare.gemm_flop_per_s == found.gemm_flop_per_s == peak
        assert 0.0 < found.gemm_ratio <= 1.0 + 1e-9, precision
        assert 0.0 < found.bf16_ratio <= 1.0 + 1e-9, precision


def test_names_are_unique_and_each_row_has_its_chip_or_a_variant() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for name in {row.chip for row in ROWS if row.planned}:
        found = silicon_of(CATALOG.chip(name))
        assert found
        assert found.chip == name


@pytest.mark.parametrize(
    ("published", "name"),
    [
        ("A100-80GB", "a100-80gb"),
        ("A100", "a100-80gb"),
        ("A100-40GB", "a100-40gb"),
        ("H100-80GB", "h100"),
        ("H100-96GB (HBM2e 2.4TB/s, 500W)", "h100-96gb"),
        ("H800-80GB", "h800"),
        ("GB200", "gb200"),
        ("B200", "b200"),
        ("TPU7x Ironwood", "tpu-7x"),
        ("TPU v5e", "tpu-v5e"),
        ("NVIDIA B200-SXM-180GB", "b200"),
        ("AMD Instinct MI355X 288GB HBM3e", "mi355x"),
        ("A100-SXM4-40GB", "a100-40gb"),
        ("H100 PCIe", "h100-pcie"),
        ("Trillium", "tpu-v6e"),
        ("TPU v7", "tpu-7x"),
        ("trn2.48xlarge", "trainium2"),
        ("VR200", "rubin"),
    ],
)
def test_names_of_published_runs(published: str, name: str) -> None:
    found = silicon_named(published)
    assert found
    assert found.name == name


def test_unknown_chip_has_no_facts() -> None:
    assert silicon_named("MI450X") is None
    assert silicon_named("RTX 5090") is None
    assert silicon_named("") is None
    assert silicon_of(CATALOG.chip("epyc-turin")) is None
    assert silicon_of(replace(CATALOG.chip("h100-sxm"), name="h100-of-tomorrow")) is None


@pytest.mark.parametrize(
    ("name", "precision"),
    [("a100-80gb", "fp8"), ("h100-sxm", "nvfp4"), ("v100", "bf16"), ("tpu-v5p", "nvfp4")],
)
def test_missing_peak_stays_missing(name: str, precision: Precision) -> None:
    chip = CATALOG.chip(name)
    silicon = silicon_of(chip)
    assert silicon
    assert peak_flop_per_s(chip, precision) is None
    with pytest.raises(AssertionError, match=f"no {precision} rate"):
        training_chip(silicon, chip, precision, 8, 50e9)


def test_tpu_without_fp8_uses_int8_peak() -> None:
    chip = CATALOG.chip("tpu-v5e")
    assert chip.dense.fp8_flop_per_s is None
    assert peak_flop_per_s(chip, "fp8") == chip.dense.int8_flop_per_s


def test_row_value_overrides_catalog() -> None:
    meta = silicon_named("H100-96GB")
    assert meta
    found = training_chip(meta, CATALOG.chip(meta.chip), "bf16", 8, 0.0)
    assert found.hbm_bytes == 96e9
    assert found.hbm_bytes_per_s == 2.4e12
    assert found.nic_bytes_per_s == 50e9  # the usual network, where none is known
    assert training_chip(meta, CATALOG.chip(meta.chip), "bf16", 8, 25e9).nic_bytes_per_s == 25e9


def test_power_limits() -> None:
    constants = CALIBRATION.constants
    assert power_speed(number(1.0), constants) == 1.0
    assert power_speed(number(1400 / 1200), constants) == pytest.approx(constants.ultra_ratio)
    assert 1.0 <= power_speed(number(1.1), constants) <= constants.ultra_ratio


def test_factor_multiplies_both_ratios_but_only_low_precision_on_tpus() -> None:
    ratios = CALIBRATION.ratios
    for name, precision, gemm, half in (
        (
            "H100-96GB",
            "fp8",
            ratios["H100|fp8"] * ratios["H100-96GB"],
            ratios["H100|bf16"] * ratios["H100-96GB"],
        ),
        (
            "GB200",
            "nvfp4",
            ratios["Blackwell|nvfp4"] * ratios["GB200"],
            ratios["Blackwell|bf16"] * ratios["GB200"],
        ),
        ("TPU v6e", "int8", ratios["TPU v6e|bf16"] * ratios["TPU|low"], ratios["TPU v6e|bf16"]),
        ("TPU v6e", "bf16", ratios["TPU v6e|bf16"], ratios["TPU v6e|bf16"]),
    ):
        row = silicon_named(name)
        assert row
        found = calibrated(
            training_chip(row, CATALOG.chip(row.chip), precision, 8, 50e9),
            row,
            precision,
            CALIBRATION,
        )
        assert found.gemm_ratio == pytest.approx(gemm), name
        assert found.bf16_ratio == pytest.approx(half), name


def test_narrower_operands_are_smaller_and_cost_a_cast() -> None:
    for name, form in FORMATS.items():
        assert (form.operand_bytes < 2.0) == (form.cast_bytes > 0.0), name
    assert (
        FORMATS["nvfp4"].operand_bytes
        < FORMATS["fp8"].operand_bytes
        < FORMATS["bf16"].operand_bytes
    )


def test_low_precision_runs_at_its_own_ratio() -> None:
    h100, tpu, a100, mi300 = (silicon_named(name) for name in ("H100", "TPU v6e", "A100", "MI300X"))
    assert h100
    assert tpu
    assert a100
    assert mi300
    assert ratio_keys(h100, "mxfp8") == ("H100|fp8", "H100|bf16", "")
    assert ratio_keys(tpu, "int8") == ("TPU v6e|bf16", "TPU v6e|bf16", "TPU|low")
    assert ratio_keys(tpu, "bf16") == ("TPU v6e|bf16", "TPU v6e|bf16", "")
    assert ratio_keys(a100, "int8") == ("A100|bf16", "A100|bf16", "")
    assert ratio_keys(mi300, "fp8") == ("CDNA", "CDNA", "")
