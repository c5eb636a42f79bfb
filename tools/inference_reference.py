"""Renews the tables of constants in docs/concepts/inference-model.md: `python tools/inference_reference.py`."""

from __future__ import annotations

import re
from pathlib import Path

from gpuyard.perf.inference.calibration import ServingCalibration, read_calibration
from gpuyard.perf.inference.chip import read_variants
from gpuyard.perf.inference.serving_engine import read_engines

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "inference-model.md"
CHIP = (
    "gemm.bf16", "gemm.fp8", "gemm.nvfp4", "experts.bf16", "experts.fp8", "experts.nvfp4", "stream", "expert_stream",
    "kv", "attention", "layer_us", "expert_layer_us",
)  # fmt: skip
HOST = ("bus_latency", "bus_rate", "across_rate")
ENGINE = (
    "gemm", "reduce", "layer_us", "eager_layer_us", "host_us", "host_sequence_us", "request_us", "request_token_us",
)  # fmt: skip


def tables(calibration: ServingCalibration) -> str:
    """The constants of chips and of engines as Markdown."""
    kinds = list(dict.fromkeys(variant.kernels for variant in read_variants()))
    hosts = [kind for kind in kinds if f"{kind}.{HOST[0]}" in calibration.values]
    engines = [engine.name for engine in read_engines()]
    links = sorted(
        name.split(".")[0]
        for name in calibration.values
        if name.endswith(".latency_us") and "transfer" not in name
    )
    rest = [
        name for name in calibration.values if name.split(".")[0] not in {*kinds, *engines, *links}
    ]
    return "\n".join(
        [
            *_table("kind of chip", kinds, CHIP, calibration),
            "",
            *_table("hosts, PCIe", hosts, HOST, calibration),
            "",
            *_table("engine", engines, ENGINE, calibration),
            "",
            *_table("link", links, ("latency_us", "ratio"), calibration),
            "",
            *("| constant | value |", "|---|---:|"),
            *(f"| *{name}* | {calibration[name]:.3g} |" for name in rest),
            "",
        ]
    )


def _table(
    head: str, rows: list[str], columns: tuple[str, ...], calibration: ServingCalibration
) -> list[str]:
    """One table; a cell is blank where there is no such constant."""
    cells = [[_cell(calibration, f"{row}.{column}") for column in columns] for row in rows]
    lines = [f"| {row} | {' | '.join(values)} |" for row, values in zip(rows, cells, strict=True)]
    return [f"| {head} | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns), *lines]


def _cell(calibration: ServingCalibration, name: str) -> str:
    """A number of three digits."""
    return f"{calibration[name]:.3g}" if name in calibration.values else ""


def renewed(page: str) -> str:
    """The page with the tables of today."""
    marked = r"(<!-- constants -->\n).*?(<!-- /constants -->)"
    text = tables(read_calibration())
    return re.sub(marked, lambda found: found[1] + text + found[2], page, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
