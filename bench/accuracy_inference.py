"""Errors and coverage of the serving model, as Markdown: `python bench/accuracy_inference.py [RUNS.csv [NEW.csv ...]]`.

Columns: fitted to all rows; with each model (of one shape), chip, release of an engine, source or generation of chips
held out of the fit in turn. Without a file: the table in the folder that GPUYARD_PUBLISHED names, or the curated one of
the tests. Tables after the first were never fitted. `--write` renews the table in docs/concepts/inference-model.md and
the intervals in src/gpuyard/perf/inference/data/intervals.toml; `--cache FILE.npz` keeps held-out predictions. Ten
minutes on one core for the whole table.
"""

from __future__ import annotations

import csv
import functools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.serving_holdout import HELD, Held, HeldOutGroups, group_of
from gpuyard.calibrate.serving_intervals import (
    Cell,
    HeldOutError,
    cell_of,
    fit_cells,
    held_out_errors,
)
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.case import ServingBenchmark, ServingBenchmarks
from gpuyard.perf.inference.contradictions import by_setting
from gpuyard.perf.inference.error_bars import FEW_ROWS, Level
from gpuyard.perf.inference.error_bars import PATH as INTERVALS
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.perf.score import ErrorStats, errors
from gpuyard.simulate.serving.score import NAMES, measured, predictions

ROOT = Path(__file__).parent.parent
CURATED = ROOT / "tests" / "accuracy" / "inference_runs.csv"
PAGE = ROOT / "docs" / "concepts" / "inference-model.md"
COLUMNS = ("in sample", *(f"{name}s out" for name in HELD))
LEAST_ROWS = 400  # to fit without some of them
LEVELS: dict[Held, Level] = {
    "model": "near",
    "source": "near",
    "chip": "sibling",
    "release": "sibling",
    "generation": "far",
}  # how far a held-out run is from the rest
HEADER = """# Intervals of the serving model, written by bench/accuracy_inference.py.
# rows: fitted runs by engine and chip. cell: level|figure|load|kind|engine family|kind of chip, blank for all; low and
# high: logarithms of measured over predicted that 5 % of held-out runs are below and above; slow: 10 % are slower.

"""
Counts = Counter[tuple[str, str]]
LEAST_SLICE, LOWEST, HIGHEST = 30, 0.85, 0.95  # of coverage
LEAST_RELEASES = 2  # beside a row's own, to tell how far it is from them
Mask = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]


def paths(arguments: Sequence[str]) -> list[Path]:
    """The tables to score, the fitted one first."""
    files = [Path(argument) for argument in arguments if argument.endswith(".csv")]
    folder = os.environ.get("GPUYARD_PUBLISHED")
    return files or [Path(folder) / "inference_runs.csv" if folder else CURATED]


def cached(file: Path | None, name: str, compute: Callable[[], Reals]) -> Reals:
    """A column of predictions, from the cache if it has it."""
    stored = dict(np.load(file)) if file is not None and file.exists() else {}
    if name not in stored:
        print(name, file=sys.stderr, flush=True)
        stored[name] = compute()
        if file is not None:
            np.savez(file, **stored)  # type: ignore[arg-type]
    return stored[name]


def held_out(cases: Sequence[ServingBenchmark], file: Path | None) -> dict[Held, Reals]:
    """Predictions with each group held out of the fit."""
    groups = functools.cache(lambda: HeldOutGroups(cases, read_calibration()))
    return {
        by: cached(file, by, functools.partial(lambda by: groups().predict(by), by)) for by in HELD
    }


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


def errors_of(
    cases: Sequence[ServingBenchmark], predicted: Mapping[Held, Reals]
) -> dict[Held, list[HeldOutError]]:
    """The errors of every run with its groups held out."""
    truth = np.array([measured(case.row) for case in cases])
    return {
        by: held_out_errors(
            cases,
            [LEVELS[by]] * len(cases),
            [f"{by} {group_of(case, by)}" for case in cases],
            values,
            truth,
        )
        for by, values in predicted.items()
    }


def unseen_errors(
    cases: Sequence[ServingBenchmark], counts: Counts, predicted: Reals
) -> list[HeldOutError]:
    """The errors of runs that were never fitted."""
    return held_out_errors(
        cases,
        [level(case, counts) for case in cases],
        [f"source {group_of(case, 'source')}" for case in cases],
        predicted,
        np.array([measured(case.row) for case in cases]),
    )


def counts_of(cases: Sequence[ServingBenchmark]) -> Counts:
    """Fitted runs by engine and chip."""
    return Counter((case.engine.name, case.chip.counts_as or case.chip.name) for case in cases)


def level(case: ServingBenchmark, counts: Counts) -> Level:
    """How far a run is from fitted ones."""
    if not case.chip.calibrated:
        return "far"
    rows = counts[case.engine.name, case.chip.counts_as or case.chip.name]
    if rows >= FEW_ROWS:
        return "near"
    every = sum(count for (engine, _), count in counts.items() if engine == case.engine.name)
    return "sibling" if every >= FEW_ROWS or rows else "far"


def intervals_text(counts: Counts, cells: Mapping[str, Cell]) -> str:
    """Counts and cells as TOML."""
    lines = []
    for engine in sorted({engine for engine, _ in counts}):
        chips = sorted((chip, rows) for (name, chip), rows in counts.items() if name == engine)
        lines.append(f"[rows.{engine}]\n" + "".join(f"{chip} = {rows}\n" for chip, rows in chips))
    lines += [
        f'[cell."{key}"]\nlow = {cell.low:.3f}\nhigh = {cell.high:.3f}\nslow = {cell.slow:.3f}\nrows = {cell.rows}\n'
        for key, cell in sorted(cells.items())
    ]
    return HEADER + "\n".join(lines)


def coverage_table(
    held: Mapping[Held, Sequence[HeldOutError]],
    unseen: Sequence[HeldOutError],
    cells: Mapping[str, Cell],
) -> str:
    """Coverage by figure, and the slices of 30 rows or more outside 85 to 95 %."""
    parts = {**{f"{by}s out": some for by, some in held.items()}, "never fitted": unseen}
    without = fit_cells([one for some in held.values() for one in some])
    lines = [f"| inside the 90 % interval | {' | '.join(NAMES)} |", "|---|" + "---:|" * len(NAMES)]
    lines += [_coverage_row(name, some, cells) for name, some in parts.items()]
    lines.append(_coverage_row("never fitted, by cells without them", unseen, without))
    slices: dict[str, list[HeldOutError]] = {}
    for name, some in parts.items():
        for one in some:
            query = one.query
            for part in (query.load, query.kind, query.family, query.kernels):
                slices.setdefault(f"{name}, {query.metric}, {part}", []).append(one)
    wide = {key: some for key, some in sorted(slices.items()) if len(some) >= LEAST_SLICE}
    shares = {key: share(some, cells) for key, some in wide.items()}
    low = [f"{key} ({size:.0%})" for key, size in shares.items() if size < LOWEST]
    high = sum(size > HIGHEST for size in shares.values())
    lines += [
        "",
        f"Of {len(wide)} slices of {LEAST_SLICE} rows or more (by load, kind, engine family and kind of chip),",
        f"{len(wide) - len(low) - high} are covered in {LOWEST:.0%} to {HIGHEST:.0%} of cases, {high} in more,",
        f"{len(low)} in less{': ' + '; '.join(low) if low else ''}.",
    ]
    return "\n".join(lines) + "\n"


def _coverage_row(name: str, some: Sequence[HeldOutError], cells: Mapping[str, Cell]) -> str:
    """A line of the table: the share inside, and the rows, of each figure."""
    by_figure = [[one for one in some if one.query.metric == metric] for metric in NAMES]
    return f"| {name} | {' | '.join(inside(part, cells) for part in by_figure)} |"


def share(some: Sequence[HeldOutError], cells: Mapping[str, Cell]) -> float:
    """The share of errors inside their cells."""
    placed = [(cell_of(cells, one.query), one.error) for one in some]
    return float(np.mean([cell.low <= error <= cell.high for cell, error in placed if cell]))


def inside(some: Sequence[HeldOutError], cells: Mapping[str, Cell]) -> str:
    """The share as text, with the rows."""
    return f"{share(some, cells):.0%} of {len(some)}" if some else ""


def main() -> None:
    """Prints the tables; with --write, renews the page and the intervals."""
    tables = [read(file) for file in paths(sys.argv[1:])]
    fitted = tables[0].cases
    cache = Path(sys.argv[sys.argv.index("--cache") + 1]) if "--cache" in sys.argv else None
    predicted = held_out(fitted, cache) if len(fitted) >= LEAST_ROWS else {}
    sample = cached(cache, "in sample", lambda: predictions(fitted, read_calibration()))
    columns = [sample, *predicted.values()]
    text = table(tables[0], columns)
    print(text)
    if not predicted:
        return
    counts, held = counts_of(fitted), errors_of(fitted, predicted)
    ids = {case.row["id"] for case in fitted}
    new = {case.row["id"]: case for one in tables[1:] for case in one.cases}
    never = [case for name, case in new.items() if name not in ids]
    values = cached(cache, "never fitted", lambda: predictions(never, read_calibration()))
    unseen = unseen_errors(never, counts, values)
    cells = fit_cells([*(one for some in held.values() for one in some), *unseen])
    covered = coverage_table(held, unseen, cells)
    print(covered)
    if "--write" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        for mark, block in (("errors", text), ("coverage", covered)):
            marked = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
            page = re.sub(marked, lambda m, block=block: m[1] + block + m[2], page, flags=re.S)
        PAGE.write_text(page, encoding="utf-8")
        INTERVALS.write_text(intervals_text(counts, cells), encoding="utf-8")


if __name__ == "__main__":
    main()
