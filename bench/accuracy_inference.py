"""The errors of the serving model on published runs, as Markdown: `python bench/accuracy_inference.py [FILE.csv]`.

Columns: fitted to all rows; with each model (of one shape), chip or release of an engine left out of the fit in turn.
Without a file: the table in the folder that GPUYARD_PUBLISHED names, or the curated one of the tests.
`--write` renews the table in docs/concepts/inference-model.md and the error bars in
src/gpuyard/perf/inference/data/errors.toml. A quarter of an hour on two cores for the whole table.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.serving_holdout import HELD, Held, hold_out
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.case import ServingBenchmark, ServingBenchmarks
from gpuyard.perf.inference.contradictions import by_setting
from gpuyard.perf.inference.error_bars import DISAGGREGATED
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.perf.score import ErrorStats, errors
from gpuyard.simulate.serving.score import NAMES, measured, predictions

ROOT = Path(__file__).parent.parent
CURATED = ROOT / "tests" / "accuracy" / "inference_runs.csv"
PAGE = ROOT / "docs" / "concepts" / "inference-model.md"
BARS = ROOT / "src" / "gpuyard" / "perf" / "inference" / "data" / "errors.toml"
COLUMNS = ("in sample", *(f"{name}s out" for name in HELD))
LEAST_ROWS = 400  # to fit without some of them
LEAST_RELEASES = 2  # beside a row's own, to tell how far it is from them
Mask = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]


def path(arguments: Sequence[str]) -> Path:
    """The table to score."""
    files = [argument for argument in arguments if not argument.startswith("--")]
    if files:
        return Path(files[0])
    folder = os.environ.get("GPUYARD_PUBLISHED")
    return Path(folder) / "inference_runs.csv" if folder else CURATED


def column(held: Held | None, file: Path) -> Reals:
    """Predictions of every case by the shipped constants, or by fits without its group."""
    cases, calibration = read(file).cases, read_calibration()
    if held is None:
        return predictions(cases, calibration)
    print(f"each {held} left out", file=sys.stderr, flush=True)
    return hold_out(cases, calibration, held)


def read(file: Path) -> ServingBenchmarks:
    """The runs of a table."""
    with file.open(newline="", encoding="utf-8") as lines:
        return read_cases(csv.DictReader(lines), load_catalog())


def groups(cases: Sequence[ServingBenchmark]) -> tuple[tuple[str, int, Mask], ...]:
    """What is reported: a name, the figure, the rows."""
    scenario = np.array([case.row["scenario"] for case in cases])
    moe = np.array([case.shape.experts > 0 for case in cases])
    chips = np.array([case.chip.name for case in cases])
    split = np.array([case.prefill is not None for case in cases])
    offline, closed = (
        scenario == "offline max-throughput",
        (scenario == "fixed concurrency") & ~split,
    )
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


def cell(found: ErrorStats) -> str:
    """Mean and median error in per cent."""
    if found.mean_abs_error is None or found.median_abs_error is None:
        return ""
    return f"{100 * found.mean_abs_error:.1f} ({100 * found.median_abs_error:.1f})"


def table(cases: ServingBenchmarks, columns: Sequence[Reals]) -> str:
    """The errors as Markdown."""
    truth = np.array([measured(case.row) for case in cases.cases])
    lines = [
        f"| rows of | rows | {' | '.join(COLUMNS[: len(columns)])} |",
        "|---|---:|" + "---:|" * len(columns),
    ]
    for name, k, rows in groups(cases.cases):
        found = [errors(column[rows, k], truth[rows, k]) for column in columns]
        if found[0].rows:
            lines.append(
                f"| {name} | {found[0].rows} | {' | '.join(cell(each) for each in found)} |"
            )
    lines += [
        "",
        f"{len(cases.cases)} of {cases.rows} rows are supported.",
        between_releases(cases.cases),
    ]
    return "\n".join(lines).rstrip() + "\n"


def between_releases(cases: Sequence[ServingBenchmark]) -> str:
    """How far a setting's offline throughput in one release is from the median of the others: no era is nearer."""
    far = []
    for group in by_setting(cases):
        rates = {case.row["engine_ver"]: measured(case.row)[0] for case in group}
        for release, rate in rates.items():
            others = [other for name, other in rates.items() if name != release]
            if len(others) >= LEAST_RELEASES:
                far.append(abs(rate / float(np.median(others)) - 1.0))
    if not far:
        return ""
    mean, median = 100 * float(np.mean(far)), 100 * float(np.median(far))
    return f"The same offline setting differs between releases by {mean:.1f} ({median:.1f}): {len(far)} rows.\n"


def bars(cases: ServingBenchmarks, predicted: Reals) -> str:
    """The 80th percentile of the error by figure, engine family and kind of chip, as TOML; two pools are a kind."""
    truth = np.array([measured(case.row) for case in cases.cases])
    size = np.abs(np.log(np.maximum(predicted, 1e-9) / truth))
    kinds = [f"{case.engine.family}|{case.chip.kernels}" for case in cases.cases]
    keys = np.array(
        [
            DISAGGREGATED if case.prefill else kind
            for case, kind in zip(cases.cases, kinds, strict=True)
        ]
    )
    lines = [
        "# Errors of predictions with whole models held out of the fit; written by bench/accuracy_inference.py.\n"
    ]
    for k, name in enumerate(NAMES):
        for key in ("", *np.unique(keys)):
            own = size[keys == key, k] if key else size[:, k]
            own = own[np.isfinite(own)]
            if len(own):
                p80 = float(np.expm1(np.quantile(own, 0.8)))
                lines.append(
                    f'[error."{name}{"|" if key else ""}{key}"]\np80 = {p80:.3f}\nrows = {len(own)}\n'
                )
    return "\n".join(lines)


def main() -> None:
    """Prints the table; with --write, renews the page and the error bars."""
    file = path(sys.argv[1:])
    cases = read(file)
    wanted = (None, *HELD) if len(cases.cases) >= LEAST_ROWS else (None,)
    with ProcessPoolExecutor(min(len(wanted), os.cpu_count() or 1)) as pool:
        longest = [
            pool.submit(column, held, file) for held in reversed(wanted)
        ]  # there are more releases than models
        columns = [each.result() for each in reversed(longest)]
    text = table(cases, columns)
    print(text)
    if "--write" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        marked = r"(<!-- errors -->\n).*?(<!-- /errors -->)"
        PAGE.write_text(
            re.sub(marked, lambda found: found[1] + text + found[2], page, flags=re.S),
            encoding="utf-8",
        )
        BARS.write_text(bars(cases, columns[min(1, len(columns) - 1)]), encoding="utf-8")


if __name__ == "__main__":
    main()
