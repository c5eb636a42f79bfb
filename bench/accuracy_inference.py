"""The errors of the serving model on published runs, as Markdown: `python bench/accuracy_inference.py [FILE.csv]`.

Columns: fitted to all rows; with whole models (of one shape), chips or releases of an engine left out of the fit.
Without a file: the table in the folder that GPUYARD_PUBLISHED names, or the curated one of the tests.
`--write` renews the table in docs/concepts/inference-model.md and the error bars in
src/gpuyard/perf/inference/data/errors.toml. Some minutes of CPU time on the whole table.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.catalog import load_catalog
from gpuyard.perf.inference import Calibration, read_calibration
from gpuyard.perf.inference.published import Case, Cases, read_cases
from gpuyard.perf.score import Errors, errors
from gpuyard.simulate.serving.holdout import HELD, Held, group_of, hold_out
from gpuyard.simulate.serving.margins import with_margins
from gpuyard.simulate.serving.schedules import Schedules, schedules
from gpuyard.simulate.serving.score import NAMES, measured, predictions
from gpuyard.simulate.serving.slopes import Runs

ROOT = Path(__file__).parent.parent
CURATED = ROOT / "tests" / "accuracy" / "inference_runs.csv"
PAGE = ROOT / "docs" / "concepts" / "inference-model.md"
BARS = ROOT / "src" / "gpuyard" / "perf" / "inference" / "data" / "errors.toml"
COLUMNS = ("in sample", *(f"{name}s out" for name in HELD))
LEAST_ROWS = 400  # to fit without some of them
THIRD = 3  # every third server run that is left in gives the margins: a search each, and a median needs no more
Mask = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]


def path(arguments: Sequence[str]) -> Path:
    """The table to score."""
    files = [argument for argument in arguments if not argument.startswith("--")]
    if files:
        return Path(files[0])
    folder = os.environ.get("GPUYARD_PUBLISHED")
    return Path(folder) / "inference_runs.csv" if folder else CURATED


def in_sample(cases: Sequence[Case], plans: Schedules, calibration: Calibration) -> Reals:
    """Predictions of every case by the shipped constants; schedules that do not depend on time are not run again."""
    result = np.full((len(cases), 4), np.nan)
    own, rest = _split(cases, plans)
    result[own] = plans.predict(calibration, np.arange(len(plans.cases)))
    result[rest] = predictions([cases[i] for i in rest], calibration)
    return result


def _split(cases: Sequence[Case], plans: Schedules) -> tuple[list[int], list[int]]:
    """Places of the cases that have a schedule, in its order, and of the others."""
    place = {case.row["id"]: i for i, case in enumerate(cases)}
    own = [place[case.row["id"]] for case in plans.cases]
    return own, sorted(set(range(len(cases))) - set(own))


def held_out(cases: Sequence[Case], plans: Schedules, calibration: Calibration, by: Held) -> Reals:
    """Predictions of every case by a fit without its group; runs in real time are simulated with that fit."""
    truth = np.array([measured(case.row) for case in plans.cases])
    planned, fits = hold_out(Runs(plans, calibration), truth, by)
    result = np.full((len(cases), 4), np.nan)
    own, rest = _split(cases, plans)
    result[own] = planned
    for k, (out, found) in enumerate(fits):
        known = frozenset().union(*(groups for groups, _ in fits))
        some = [i for i in rest if group_of(cases[i], by) in out or (not k and group_of(cases[i], by) not in known)]
        others = [cases[i] for i in rest if cases[i].load.kind == "mlperf-server" and i not in set(some)]
        result[some] = predictions([cases[i] for i in some], with_margins(others[::THIRD], found))
    return result


def groups(cases: Sequence[Case]) -> tuple[tuple[str, int, Mask], ...]:
    """What is reported: a name, the figure, the rows."""
    scenario = np.array([case.row["scenario"] for case in cases])
    moe = np.array([case.shape.experts > 0 for case in cases])
    chips = np.array([case.chip.name for case in cases])
    split = np.array([case.prefill is not None for case in cases])
    offline, closed = scenario == "offline max-throughput", (scenario == "fixed concurrency") & ~split
    static = np.char.startswith(scenario, "static")
    rows: list[tuple[str, int, Mask]] = [
        ("offline throughput", 0, offline),
        ("offline throughput, dense", 0, offline & ~moe),
        ("offline throughput, MoE", 0, offline & moe),
        ("static batch, throughput", 0, static),
        ("MLPerf Offline, throughput", 0, scenario == "MLPerf Offline"),
        ("MLPerf Server, throughput", 0, scenario == "MLPerf Server"),
        ("MLPerf Interactive, throughput", 0, scenario == "MLPerf Interactive"),
        ("fixed concurrency, TPOT, dense", 1, closed & ~moe),
        ("fixed concurrency, TPOT, MoE", 1, closed & moe),
        ("fixed concurrency, TTFT", 2, closed),
        ("disaggregated, TPOT", 1, split),
        ("disaggregated, TTFT", 2, split),
        ("open loop, TPOT", 1, np.char.startswith(scenario, "server")),
        ("open loop, TTFT", 2, np.char.startswith(scenario, "server")),
        ("all rows, TPOT", 1, np.ones_like(moe)),
        ("all rows, TTFT", 2, np.ones_like(moe)),
        ("all rows, E2E", 3, np.ones_like(moe)),
    ]
    rows += [(f"{name}, throughput", 0, chips == name) for name in np.unique(chips)]
    return tuple(rows)


def cell(found: Errors) -> str:
    """Mean and median error in per cent."""
    if found.mean_abs_error is None or found.median_abs_error is None:
        return ""
    return f"{100 * found.mean_abs_error:.1f} ({100 * found.median_abs_error:.1f})"


def table(cases: Cases, columns: Sequence[Reals]) -> str:
    """The errors as Markdown."""
    truth = np.array([measured(case.row) for case in cases.cases])
    lines = [f"| rows of | rows | {' | '.join(COLUMNS[: len(columns)])} |", "|---|---:|" + "---:|" * len(columns)]
    for name, k, rows in groups(cases.cases):
        found = [errors(column[rows, k], truth[rows, k]) for column in columns]
        if found[0].rows:
            lines.append(f"| {name} | {found[0].rows} | {' | '.join(cell(each) for each in found)} |")
    lines += ["", f"{len(cases.cases)} of {cases.rows} rows are supported."]
    return "\n".join(lines) + "\n"


def bars(cases: Cases, predicted: Reals) -> str:
    """The 80th percentile of the error by figure, engine family and kind of chip, as TOML."""
    truth = np.array([measured(case.row) for case in cases.cases])
    size = np.abs(np.log(np.maximum(predicted, 1e-9) / truth))
    keys = np.array([f"{case.engine.family}|{case.chip.kernels}" for case in cases.cases])
    lines = ["# Errors of predictions with whole models held out of the fit; written by bench/accuracy_inference.py.\n"]
    for k, name in enumerate(NAMES):
        for key in ("", *np.unique(keys)):
            own = size[keys == key, k] if key else size[:, k]
            own = own[np.isfinite(own)]
            if len(own):
                p80 = float(np.expm1(np.quantile(own, 0.8)))
                lines.append(f'[error."{name}{"|" if key else ""}{key}"]\np80 = {p80:.3f}\nrows = {len(own)}\n')
    return "\n".join(lines)


def main() -> None:
    """Prints the table; with --write, renews the page and the error bars."""
    with path(sys.argv[1:]).open(newline="", encoding="utf-8") as file:
        cases = read_cases(csv.DictReader(file), load_catalog())
    calibration = read_calibration()
    plans = schedules(cases.cases, calibration)
    columns = [in_sample(cases.cases, plans, calibration)]
    if len(cases.cases) >= LEAST_ROWS:
        for by in HELD:
            print(f"{by}s left out", file=sys.stderr, flush=True)
            columns.append(held_out(cases.cases, plans, calibration, by))
    text = table(cases, columns)
    print(text)
    if "--write" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        marked = r"(<!-- errors -->\n).*?(<!-- /errors -->)"
        PAGE.write_text(re.sub(marked, lambda found: found[1] + text + found[2], page, flags=re.S), encoding="utf-8")
        BARS.write_text(bars(cases, columns[min(1, len(columns) - 1)]), encoding="utf-8")


if __name__ == "__main__":
    main()
