"""Renews the tables of constants in docs/concepts/inference-model.md, and the model card: docs/concepts/serving-model-card.md.

python tools/inference_reference.py
"""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path

from gpuyard.perf.inference.calibration import (
    ServingCalibration,
    read_calibration,
    read_effects,
    read_margins,
)
from gpuyard.perf.inference.chip import read_variants
from gpuyard.perf.inference.constants import read_constants
from gpuyard.perf.inference.error_bars import PATH as INTERVALS
from gpuyard.perf.inference.serving_engine import read_engines

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "inference-model.md"
CARD = PAGE.parent / "serving-model-card.md"
FIGURES = {"throughput": "throughput", "tpot": "TPOT", "ttft": "TTFT", "e2e": "end to end"}
EFFECT_COLUMNS = 3
EFFECTS_TEXT = """A constant is its prior times the effects on it: `chips.kv` is of all chips, `hopper-chips.kv` of a generation,
`hopper.kv` of a kind. The standard error is of the logarithm, in per cent."""
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


def card() -> str:
    """The model card: what is fitted, to how many runs, how wide the intervals are."""
    table = tomllib.loads(INTERVALS.read_text(encoding="utf-8"))
    constants, effects = read_constants(), read_effects()
    fitted = sum(constant.fitted for constant in constants)
    rows = sum(sum(chips.values()) for chips in table["rows"].values())
    return "\n".join(
        [
            "# Serving model card",
            "",
            "| | |",
            "|---|---|",
            "| predicts | throughput, TPOT, TTFT and end-to-end latency of LLM serving replicas |",
            "| from | model shape, chip, weight and KV-cache dtypes, layout, engine release, load |",
            "| does not predict | speculative decoding, first steps that compile, other tenants |",
            f"| fitted to | {rows:,} published runs: {_families(table['rows'])} |",
            f"| fitted numbers | {len(effects)} effects shared by {fitted} constants, {len(read_margins())} margins of MLPerf servers |",
            "| reproduce | `make refit-serving PUBLISHED=FOLDER` |",
            "| errors | [accuracy](inference-model.md#accuracy); on tables never fitted: [accuracy ledger](../accuracy.md) |",
            "| method | [serving performance model](inference-model.md), [intervals](prediction-intervals.md#serving) |",
            "",
            "## Intervals",
            "",
            "Measured over predicted in 90 % of held-out runs, by distance from fitted runs; cells by load, engine and chip are narrower or wider.",
            "",
            "| level | " + " | ".join(FIGURES.values()) + " |",
            "|---|" + "---:|" * len(FIGURES),
            *(_interval_row(level, table["cell"]) for level in ("near", "sibling", "far")),
            "",
            "## Effects",
            "",
            EFFECTS_TEXT,
            "",
            *_effect_rows(),
            "",
            "## Margins of MLPerf servers",
            "",
            "| margin | value | meaning |",
            "|---|---:|---|",
            *_margin_rows(),
            "",
        ]
    )


def _families(rows: dict[str, dict[str, int]]) -> str:
    """Fitted runs by engine family, the most first."""
    counts: dict[str, int] = {}
    for engine in read_engines():
        own = sum(rows.get(engine.name, {}).values())
        counts[engine.family] = counts.get(engine.family, 0) + own
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{family} {count:,}" for family, count in ranked if count)


def _interval_row(level: str, cells: dict[str, dict[str, float]]) -> str:
    """The widest cell of a level for each figure, as ratios and rows."""
    texts = []
    for figure in FIGURES:
        cell = cells[f"{level}|{figure}||||"]
        low, high = math.exp(cell["low"]), math.exp(cell["high"])
        texts.append(f"{low:.2f} to {high:.2f} ({cell['rows']:,.0f})")
    return f"| {level} | " + " | ".join(texts) + " |"


def _effect_rows() -> list[str]:
    """The effects in a few columns."""
    cells = [f"{e.name} | {e.factor:.3g} | {100 * e.error:.1f}" for e in read_effects()]
    depth = math.ceil(len(cells) / EFFECT_COLUMNS)
    columns = [cells[k * depth : (k + 1) * depth] for k in range(EFFECT_COLUMNS)]
    head = "| " + " | ".join(["effect | factor | error, %"] * EFFECT_COLUMNS) + " |"
    lines = [head, "|" + "---|---:|---:|" * EFFECT_COLUMNS]
    for row in range(depth):
        own = [column[row] if row < len(column) else " | | " for column in columns]
        lines.append("| " + " | ".join(own) + " |")
    return lines


def _margin_rows() -> list[str]:
    meanings = {constant.name: constant.meaning for constant in read_constants()}
    return [
        f"| *{name}* | {value:g} | {meanings[name]} |" for name, value in read_margins().items()
    ]


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    CARD.write_text(card(), encoding="utf-8")
