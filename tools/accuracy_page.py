"""Writes docs/accuracy.md and its chart from the scores in docs/data.

python tools/accuracy_page.py                      writes the page
python tools/accuracy_page.py first TABLES JSON    collects scores made before a refit on these tables
python tools/accuracy_page.py refit TABLES JSON    collects scores made after a refit
python tools/accuracy_page.py left-out FILE.json   collects what `bench/accuracy.py --json FILE.json` wrote

TABLES: folder of CSV tables; JSON: folder with the output of `gpuyard accuracy MODEL NAME.csv --json`
as NAME.json; a table without one keeps its scores. First scores are collected once and not changed afterwards.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "data"
PAGE = ROOT / "docs" / "accuracy.md"
CHART = DATA / "accuracy.svg"
HISTORY = DATA / "score_history.json"
LEAST_SLICE, LOWEST, HIGHEST = 30, 0.85, 0.95  # of coverage
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 320, 50, 20, 40, 300  # of the chart, in pixels
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")
# Table, model that scores it, figures per row, the table that the model is fitted to.
TABLES: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("training_runs_2025h2", "training", ("step time",), "training_runs"),
    ("inference_runs_2026", "inference", ("throughput", "tpot", "ttft", "e2e"), "inference_runs"),
    (
        "inference_latency_mlperf",
        "inference",
        ("throughput", "tpot", "ttft", "e2e"),
        "inference_runs",
    ),
    ("nccl_refs_2026", "collectives", ("bus bandwidth",), "nccl_refs"),
)
WEAK = """\
## Where it is weak

Per cent, predicted over measured, less one; rows left out with their source unless stated otherwise.

| rows | error | what is missing | what would show it |
|---|---|---|---|
| MoE on GB300, 33 rows | mean 16.7, bias +13; in the fit 9.7, +6 | only one framework has published MXFP8 and NVFP4 grouped GEMMs with dispatch on NVL72; GPT-OSS-120B has the largest error (mean 23) | grouped GEMM and all-to-all times of a step on GB300, or step times of a second framework |
| MoE on TPU7x, 6 rows | mean 14.4, bias −17; with the release left out −30 | one release of one framework, and no other generation with MoE | the same MoE model on v6e, or under an earlier MaxText |
| LoRA on B200 and GB300, 25 rows | mean 15 and 21, bias +10 and +19; H100 −11 | host time of layers below 1 ms, and what tensor and context parallel ranks of adapters exchange: both scale differently with the chip than GEMMs | a profile of one step on each generation |
| TPU with the release left out, 53 rows | mean 16.4: MaxText 2023 +10, MaxText 2025 −24 | two releases, of which each has chips that the other lacks: a release cannot be separated from its chips | one model on one chip under both releases |
| dense with the release left out | 8.8; 8.0 without adapters | the scalar of a framework changes from release to release, in either direction; priors of release effects half and twice as wide give 9.2 and 8.9 | earlier runs repeated with a new release |
| vTrain, one row (3.6B, TP8, micro-batch 64) | −43, more than three times its interval | twice the time of the same run with a micro-batch of 32, and a micro-batch of 2 takes 1.6 times that of 4: a fault of the measurement or a slow kernel choice | a repeated measurement |
| serving, TPOT of MoE with the source left out | mean 19, bias +14 | which kernels and batching settings a benchmark's author used; models, chips and releases left out are at 10 to 12 | the engine's command line with each row |
| throughput in inference_runs_2026 | mean 27, median 20 | two of six rows of gpt-oss-120b on B200 are 3.4 and 6 times slower than predicted, one of them at a rate of 12 requests/s with a tenth of the TPOT limit: it is not the highest rate; Arc Pro (18 rows, mean 48 too slow) has no fitted run | rates at which a server misses its limits; kernel tables of Arc Pro |
| bus bandwidth over GPUDirect-TCPX, 11 rows | 48 | only one table covers this network | measurements from a second source |
""".splitlines()
NO_MODEL = (("rl_runs", "no performance model of reinforcement-learning steps"),)
KEYS = {
    "training": ("model", "chip", "n_chips", "ref_step_time_s"),
    "inference": ("model", "chip", "scenario", "out_tok_s_total"),
}


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def fitted_ids(folder: Path, name: str, model: str, fitted: str) -> set[str]:
    """Return rows that repeat a row of the fitted table."""
    if model not in KEYS:
        return set()
    known = {tuple(row[key] for key in KEYS[model]) for row in rows_of(folder, fitted)}
    return {
        row["id"]
        for row in rows_of(folder, name)
        if tuple(row[key] for key in KEYS[model]) in known
    }


def cells(row: dict, figure: str) -> tuple[float, bool] | None:
    """Return the error of a figure, and whether the measured value is inside the interval."""
    cell = row.get(figure, {}) if figure in ("throughput", "tpot", "ttft", "e2e") else row
    if cell.get("error") is None:
        return None
    bounds = cell["interval"]
    if figure == "bus bandwidth":  # the interval is of the time, the error of the bandwidth
        measured = row["predicted_s"] * (1.0 + cell["error"])
    else:
        measured = cell["measured" if "measured" in cell else "measured_s"]
    return cell["error"], bounds["low"] <= measured <= bounds["high"]


def summary(rows: list[tuple[float, bool]]) -> dict[str, float | int]:
    size = sorted(abs(error) for error, _ in rows)
    return {
        "rows": len(rows),
        "mean": round(statistics.fmean(size), 4),
        "median": round(statistics.median(size), 4),
        "p90": round(statistics.quantiles(size, n=10, method="inclusive")[-1], 4),
        "bias": round(statistics.fmean(error for error, _ in rows), 4),
        "coverage": round(statistics.fmean(inside for _, inside in rows), 4),
    }


def collect(tables: Path, scores: Path) -> list[dict]:
    """Condense the scores of every table, without rows that the model is fitted to."""
    result = []
    for name, model, figures, fitted in TABLES:
        if not (scores / f"{name}.json").exists():
            continue
        score = json.loads((scores / f"{name}.json").read_text(encoding="utf-8"))
        known = fitted_ids(tables, name, model, fitted)
        fresh = [row for row in score["per_row"] if row.get("id", "") not in known]
        figure_rows = {
            figure: [pair for row in fresh if (pair := cells(row, figure)) is not None]
            for figure in figures
        }
        result.append(
            {
                "table": name,
                "command": f"gpuyard accuracy {model} {name}.csv --json",
                "rows": score["rows"],
                "supported": len(score["per_row"]),
                "in_the_fit": len(score["per_row"]) - len(fresh),
                "figures": {name: summary(rows) for name, rows in figure_rows.items() if rows},
            }
        )
    for name, reason in NO_MODEL:
        rows = len(rows_of(tables, name))
        result.append(
            {"table": name, "command": "", "rows": rows, "supported": 0, "in_the_fit": 0,
             "figures": {}, "reason": reason}
        )  # fmt: skip
    return result


def load(name: str) -> dict[str, dict]:
    path = DATA / f"{name}_scores.json"
    if not path.exists():
        return {}
    return {entry["table"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))}


def line(entry: dict, figure: str, refit: dict) -> str:
    first, after = entry["figures"][figure], refit.get("figures", {}).get(figure)
    percent = [f"{100 * first[key]:.1f}" for key in ("mean", "median", "p90")]
    percent.append(f"{100 * first['bias']:+.1f}")
    percent.append(f"{100 * first['coverage']:.0f}")
    later = ["–"] * 4
    if after:
        later = [str(after["rows"]), *(f"{100 * after[key]:.1f}" for key in ("mean", "median"))]
        later.append(f"{100 * after['coverage']:.0f}")
    return f"| {entry['table']} | {figure} | {first['rows']} | {' | '.join(percent + later)} |"


def remember(entries: list[dict], kind: str, day: str) -> None:
    """Adds the scores of a day to the history; a later score of that day replaces an earlier one."""
    history = json.loads(HISTORY.read_text(encoding="utf-8")) if HISTORY.exists() else []
    for entry in entries:
        for figure, cell in entry["figures"].items():
            point = {"day": day, "kind": kind, "table": entry["table"], "figure": figure}
            history = [old for old in history if any(old[key] != point[key] for key in point)]
            history.append(point | {"mean": cell["mean"], "coverage": cell["coverage"]})
    HISTORY.write_text(json.dumps(history, indent=1) + "\n", encoding="utf-8")


def chart() -> str:
    """Mean error of every figure at each day of scoring, as SVG: one line per figure."""
    history = json.loads(HISTORY.read_text(encoding="utf-8")) if HISTORY.exists() else []
    stages = sorted({(point["day"], point["kind"]) for point in history})
    top = max([point["mean"] for point in history], default=0.1)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(point: dict) -> tuple[float, float]:
        step = stages.index((point["day"], point["kind"])) / max(len(stages) - 1, 1)
        return LEFT + wide * step, TOP + high * (1.0 - point["mean"] / top)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
        "<title>Mean error of each figure over time</title>",
        "<style>text { font: 11px sans-serif }</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = TOP + high * (1.0 - share)
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{100 * top * share:.0f} %</text>'
        )
    for index, (day, kind) in enumerate(stages):
        x = LEFT + wide * index / max(len(stages) - 1, 1)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - 14}" text-anchor="middle">{kind} {day}</text>'
        )
    names = sorted({(point["table"], point["figure"]) for point in history})
    for index, (table, figure) in enumerate(names):
        own = [point for point in history if (point["table"], point["figure"]) == (table, figure)]
        own.sort(key=lambda point: (point["day"], point["kind"]))
        colour = COLOURS[index % len(COLOURS)]
        dots = [place(point) for point in own]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in dots]
        y = TOP + 12 + 16 * index
        parts.append(
            f'<text x="{LEFT + wide + 16}" y="{y}" fill="{colour}">{table}: {figure}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def left_out_lines() -> list[str]:
    """Errors of rows left out of the fit."""
    path = DATA / "left_out_scores.json"
    if not path.exists():
        return []
    items = [
        item
        for item in json.loads(path.read_text(encoding="utf-8"))
        if not item["set"].startswith("first score")
    ]
    lines = [
        "",
        "## Left out of the fit",
        "",
        "Every row predicted by a fit that did not know its group (source, model and chip), model, chip, release, source or",
        "chip architecture, or by a fit to the runs of earlier half-years. *Inside* is the share of measured values in the",
        "shipped 90 % intervals of that distance from measured runs; *other sources* is the share in intervals made from the",
        "errors of other sources alone, which is what a new source can expect. `python bench/accuracy.py` prints this table,",
        "with the first scores.",
        "",
        "| set | figure | mean | median | p90 | bias | inside | other sources | rows | supported |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for item in items:
        found = item["errors"]
        keys = ("mean_abs_error", "median_abs_error", "p90_abs_error", "bias", "coverage")
        cells = [f"{100 * found[key]:{'+' if key == 'bias' else ''}.1f}" for key in keys]
        blind = item["blind_coverage"]
        cells.append("–" if blind is None else f"{100 * blind:.1f}")
        lines.append(
            f"| {item['set']} | {item['figure']} | {' | '.join(cells)} | {found['rows']} | {item['supported']} |"
        )
    return [*lines, "", *slice_lines(items)]


def slice_lines(items: list[dict]) -> list[str]:
    """Return which slices of left-out rows are outside the range that a 90 % interval should cover."""
    sizes = [item for item in items if item["set"] != "in sample"]
    sizes = [item for item in sizes if item["errors"]["rows"] >= LEAST_SLICE]
    low, high = (
        [
            f"{item['set']}, {item['figure']} ({100 * item['errors']['coverage']:.1f})"
            for item in sizes
            if outside(item["errors"]["coverage"])
        ]
        for outside in (lambda share: share < LOWEST, lambda share: share > HIGHEST)
    )
    inside = len(sizes) - len(low) - len(high)
    wanted = f"{LOWEST:.0%} to {HIGHEST:.0%} of cases"
    return [
        f"Of {len(sizes)} slices of {LEAST_SLICE} left-out rows or more, {inside} are covered in {wanted}.",
        "",
        *(f"- less: {name}" for name in low),
        *(f"- more: {name}" for name in high),
    ]


def page() -> str:
    first, refit = load("first"), load("refit")
    lines = [
        "# Accuracy on new measurements",
        "",
        "How well the shipped models predict published measurements that they were not fitted to. The first score of a",
        "table is taken once, before any fit to it, and stays in `docs/data/first_scores.json`. Rows that repeat a row of",
        "the fitted tables do not count. Errors are |predicted / measured − 1| in per cent; *inside* is the share of",
        "measured values inside the stated 90 % interval ([prediction intervals](concepts/prediction-intervals.md)): 90",
        "would be right, less means that the intervals were too narrow.",
        "",
        "The columns after *now* score the shipped models, which have seen these tables: training and collectives were",
        "refitted on them; the serving model was not, but its two waits before the first token and the widths of its",
        "intervals were. Intervals that had not seen the tables covered 76 % of throughput, 86 % of TPOT and 84 % of TTFT",
        "([inference model](concepts/inference-model.md#accuracy)). For a new case, expect the first scores and the errors with",
        "groups left out, not these.",
        "",
        "| table | figure | rows | mean | median | p90 | bias | inside | now: rows | mean | median | inside |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for entry in first.values():
        lines += [line(entry, figure, refit.get(entry["table"], {})) for figure in entry["figures"]]
    lines += [
        "",
        "| table | rows | supported | of these in the fit | command |",
        "|---|---:|---:|---:|---|",
    ]
    for entry in first.values():
        command = f"`{entry['command']}`" if entry["command"] else entry["reason"]
        lines.append(
            f"| {entry['table']} | {entry['rows']} | {entry['supported']} | {entry['in_the_fit']} | {command} |"
        )
    lines += ["", "![Mean error of each figure over time](data/accuracy.svg)", *left_out_lines()]
    lines += [
        "",
        *WEAK,
        "",
        "Errors with groups of runs held out of the fit are in [training](concepts/training-model.md#accuracy),",
        "[inference](concepts/inference-model.md#accuracy) and [collectives](concepts/collectives.md).",
        "`python tools/accuracy_page.py` writes this page.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Collects scores and writes the page."""
    if len(sys.argv) == 4:
        kind = sys.argv[1]
        known = load(kind)
        fresh = {entry["table"]: entry for entry in collect(Path(sys.argv[2]), Path(sys.argv[3]))}
        if kind == "first":  # the honest score is the one before any fit
            fresh = {name: entry for name, entry in fresh.items() if name not in known}
        path = DATA / f"{kind}_scores.json"
        path.write_text(json.dumps([*(known | fresh).values()], indent=1) + "\n", encoding="utf-8")
        remember(list(fresh.values()), kind, datetime.now(UTC).date().isoformat())
    elif len(sys.argv) == 3:
        text = Path(sys.argv[2]).read_text(encoding="utf-8")
        (DATA / "left_out_scores.json").write_text(text, encoding="utf-8")
    CHART.write_text(chart(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
