"""One table of the errors of all performance models: `python bench/accuracy.py [--serving] [--json FILE]`.

Sets: in sample; groups, models, chips, releases, later half-years and sources left out of the fit; first scores of newer
files, taken once before any fit to them (docs/data/first_scores.json). Columns: mean, median and 90th percentile of
|predicted / measured - 1|, bias, share of measured values inside the stated 90 % interval, and inside intervals from the
errors of other sources alone, rows, and supported rows of the file.
Reads the folder that GPUYARD_PUBLISHED names. --serving refits the serving model too, which takes most of the time; without
it, serving lines are those stored in docs/data/left_out_scores.json. Rows that are off by more than three times their
interval go to stderr.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from accuracy_inference import LEVELS as SERVING_LEVELS
from accuracy_inference import Mask, Reals, cached, counts_of, errors_of, held_out, level
from accuracy_inference import read as read_serving
from gpuyard.calibrate.collectives import collective_error_bars, family_of, hold_out_families
from gpuyard.calibrate.error_bars import (
    HeldOutSteps,
    held_out_steps,
    kinds_of,
    training_error_bars,
)
from gpuyard.calibrate.serving_holdout import Held, group_of
from gpuyard.calibrate.serving_intervals import (
    Cell,
    HeldOutError,
    cell_of,
    fit_cells,
    held_out_errors,
    load_of,
)
from gpuyard.calibrate.training import refit
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.error_bars import LEVELS, ErrorBar, Level, distance, read_error_bars
from gpuyard.perf.inference.calibration import read_calibration as read_serving_calibration
from gpuyard.perf.inference.case import ServingBenchmark, ServingBenchmarks
from gpuyard.perf.inference.error_bars import PATH as INTERVALS
from gpuyard.perf.inference.error_bars import Level as ServingLevel
from gpuyard.perf.layout import Array
from gpuyard.perf.runs import PublishedRuns, read_runs
from gpuyard.perf.score import ErrorStats, errors, scored_rows, source_of
from gpuyard.simulate.collectives.constants import read_constants
from gpuyard.simulate.collectives.published_collectives import read_measured
from gpuyard.simulate.collectives.score import (
    SMALL_BYTES,
    CollectiveScore,
    ScoredRow,
    row_errors,
    score_measured,
)
from gpuyard.simulate.serving.score import METRICS, measured, predictions

DATA = Path(__file__).parent.parent / "docs" / "data"
FIRST, LEFT_OUT = DATA / "first_scores.json", DATA / "left_out_scores.json"
TRAINING = ("training_runs.csv", "training_runs_2025h2.csv")
COLLECTIVES = ("nccl_refs.csv", "nccl_refs_2026.csv")
SERVING = "inference_runs.csv"
SERVING_SETS: dict[Held, str] = {
    "model": "models left out",
    "chip": "chips left out",
    "release": "releases left out",
    "source": "sources left out",
    "generation": "chip architectures left out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table."""

    model: str  # training, collectives or serving
    set: str
    figure: str
    errors: ErrorStats
    blind_coverage: float | None = None  # by intervals that no error of the row's source is in
    supported: str


def read(folder: Path, names: tuple[str, ...]) -> list[dict[str, str]]:
    """Rows of some files."""
    rows: list[dict[str, str]] = []
    for name in names:
        with (folder / name).open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    return rows


def training_lines(folder: Path) -> Iterator[Line]:
    """Step time in sample and with runs left out."""
    runs = read_runs(read(folder, TRAINING), load_catalog())
    steps = held_out_steps(runs, read_calibration(), refit)
    fresh = {row["id"] for row in read(folder, TRAINING[1:])}
    yield from step_lines(runs, steps, np.array([row["id"] in fresh for row in runs.rows]))


def step_lines(runs: PublishedRuns, steps: HeldOutSteps, fresh: Mask) -> Iterator[Line]:
    """Lines of the training model; `fresh`: the rows of the newest table."""
    supported = f"{len(runs.rows)} of {len(runs.rows) + len(runs.unsupported)}"
    shipped = read_error_bars().bars
    sets: tuple[tuple[str, Array, Level], ...] = (
        ("in sample", steps.fitted, "run"),
        ("groups left out", steps.by_level["group"], "group"),
        ("models left out", steps.model, "group"),
        ("releases left out", steps.by_level["release"], "release"),
        ("later half-years left out", steps.later, "release"),
        ("sources left out", steps.by_level["stack"], "stack"),
        ("chip architectures left out", steps.by_level["chip"], "chip"),
    )
    kinds = np.array(kinds_of(runs))
    for name, predicted, least in sets:
        new_model = name == "models left out"
        bounds = training_bounds(runs, shipped, least, new_model)
        blind = blind_bounds(runs, steps, least, new_model)
        for figure, mask in (
            ("step time", kinds != ""),
            ("step time, dense", (kinds == "dense") | (kinds == "adapters")),
            ("step time, adapters", kinds == "adapters"),
            ("step time, MoE", kinds == "moe"),
            ("step time, TPU", kinds == "tpu"),
            (f"step time, {TRAINING[1]}", fresh),
        ):
            cells = [
                errors(predicted[mask], runs.reference_s[mask], bounds=(low[mask], high[mask]))
                for low, high in (bounds, blind)
            ]
            yield Line(
                model="training",
                set=name,
                figure=figure,
                errors=cells[0],
                blind_coverage=None if least == "run" else cells[1].coverage,
                supported=supported,
            )
        for text in beyond(runs, predicted, bounds):
            print(f"{name}: {text}", file=sys.stderr)


def training_bounds(
    runs: PublishedRuns, bars: Mapping[str, ErrorBar], least: Level, new_model: bool = False
) -> tuple[Array, Array]:
    """Error bars of all rows at their distance, at least that of the set."""
    chosen = []
    for index, kind in enumerate(kinds_of(runs)):
        profile = runs.profiles[index]
        level = max(distance(runs.silicon[index], profile, kind), least, key=LEVELS.index)
        bar = bars.get(f"{level}|{kind}|{profile.name}", bars[f"{level}|{kind}"])
        chosen.append(bar.hull(bars[f"model|{kind}"]) if new_model else bar)
    return np.array([bar.low for bar in chosen]), np.array([bar.high for bar in chosen])


def blind_bounds(
    runs: PublishedRuns, steps: HeldOutSteps, least: Level, new_model: bool
) -> tuple[Array, Array]:
    """Error bars of every row from the errors of all other sources."""
    sources = np.array([source_of(row["id"]) for row in runs.rows])
    rows = scored_rows(runs)
    low, high = np.full((2, len(runs.rows)), np.nan)
    for name in np.unique(sources[rows]):
        bars = training_error_bars(runs, steps, rows[sources[rows] != name])
        own = sources == name
        bounds = training_bounds(runs, bars, least, new_model)
        low[own], high[own] = bounds[0][own], bounds[1][own]
    return low, high


def beyond(runs: PublishedRuns, predicted: Array, bounds: tuple[Array, Array]) -> Iterator[str]:
    """Rows that are farther from the prediction than three times the interval."""
    for i in scored_rows(runs):
        error = np.log(runs.reference_s[i] / predicted[i])
        if error < 3.0 * bounds[0][i] or error > 3.0 * bounds[1][i]:
            row = runs.rows[i]
            yield (
                f"{row['id']} ({row['model']} on {row['n_chips']} {row['chip']}) is off by"
                f" {100 * np.expm1(-error):+.0f} %, more than three times its interval"
            )


def collective_lines(folder: Path) -> Iterator[Line]:
    """Bus bandwidth in sample and with systems left out."""
    items, refused = read_measured(read(folder, COLLECTIVES))
    constants = read_constants()
    fresh = {row["system"] for row in read(folder, COLLECTIVES[1:])}
    fitted, held = score_measured(items, refused, constants), hold_out_families(items, constants)
    inside = blind_inside(held, fitted)
    everything = (f"{len(items)} of {len(items) + len(refused)}", fresh)
    yield from bandwidth_lines("in sample", fitted.rows, None, *everything)
    yield from bandwidth_lines("sources left out", held.rows, inside, *everything)


def bandwidth_lines(
    name: str, rows: Sequence[ScoredRow], inside: Reals | None, supported: str, fresh: Set[str]
) -> Iterator[Line]:
    """Lines of one set; `inside`: rows that intervals without their family hold."""
    for figure, mask in (
        ("bus bandwidth", [True for _ in rows]),
        (f"bus bandwidth, {COLLECTIVES[1]}", [row.measured.system in fresh for row in rows]),
        ("bus bandwidth, over 1 MiB", [row.measured.size_bytes > SMALL_BYTES for row in rows]),
    ):
        yield Line(
            model="collectives",
            set=name,
            figure=figure,
            errors=row_errors([row for row, own in zip(rows, mask, strict=True) if own]),
            blind_coverage=None if inside is None else float(np.nanmean(inside[np.array(mask)])),
            supported=supported,
        )


def blind_inside(held: CollectiveScore, fitted: CollectiveScore) -> Reals:
    """Which rows the intervals from the errors of all other families hold; NaN without such errors."""
    families = np.array([family_of(row.measured) for row in held.rows])
    inside = np.full(len(families), np.nan)
    for name in np.unique(families):
        others = np.flatnonzero(families != name)
        bars = collective_error_bars(
            replace(held, rows=tuple(held.rows[i] for i in others)),
            replace(fitted, rows=tuple(fitted.rows[i] for i in others)),
        )
        for i in np.flatnonzero(families == name):
            bar = bars.get(f"{held.rows[i].level}|collective")
            if bar is not None:
                inside[i] = bar.low <= np.log1p(held.rows[i].error) <= bar.high
    return inside


def serving_lines(folder: Path, cache: Path | None) -> Iterator[Line]:
    """Serving metrics in sample and with runs left out."""
    runs = read_serving(folder / SERVING)
    cases, counts = runs.cases, counts_of(runs.cases)
    predicted = held_out(cases, cache)
    sample = cached(cache, "in sample", lambda: predictions(cases, read_serving_calibration()))
    inside = serving_inside(cases, [level(case, counts) for case in cases], sample)
    yield from metric_lines("in sample", runs, sample, inside)
    blind = blind_serving(cases, predicted)
    for by, values in predicted.items():
        inside = serving_inside(cases, [SERVING_LEVELS[by]] * len(cases), values)
        yield from metric_lines(SERVING_SETS[by], runs, values, inside, blind[by])


def metric_lines(
    name: str, runs: ServingBenchmarks, values: Reals, inside: Reals, blind: Reals | None = None
) -> Iterator[Line]:
    """Lines of one set; `inside`, `blind`: 1 where an interval holds the row's metric, else 0."""
    moe = np.array([case.shape.experts > 0 for case in runs.cases])
    load = np.array([load_of(case) for case in runs.cases])
    every = np.ones_like(moe)
    truth = np.array([measured(case.row) for case in runs.cases])
    for figure, metric, mask in (
        ("throughput", "throughput", every),
        ("TPOT, dense", "tpot", ~moe),
        ("TPOT, MoE", "tpot", moe),
        ("TTFT, closed loop", "ttft", load == "closed"),
        ("TTFT, open loop", "ttft", load == "open"),
        ("end to end", "e2e", every),
    ):
        k = METRICS.index(metric)
        yield Line(
            model="serving",
            set=name,
            figure=figure,
            errors=replace(
                errors(values[mask, k], truth[mask, k]),
                coverage=float(np.nanmean(inside[mask, k])),
            ),
            blind_coverage=None if blind is None else float(np.nanmean(blind[mask, k])),
            supported=f"{len(runs.cases)} of {runs.rows}",
        )


def serving_inside(
    cases: Sequence[ServingBenchmark], levels: Sequence[ServingLevel], values: Reals
) -> Reals:
    """1 where the shipped interval of the level holds a metric, 0 where not, NaN if unknown."""
    table = tomllib.loads(INTERVALS.read_text(encoding="utf-8"))["cell"]
    cells = {name: Cell(**cell) for name, cell in table.items()}
    truth = np.array([measured(case.row) for case in cases])
    found = held_out_errors(cases, levels, [""] * len(cases), values, truth)
    inside = np.full(truth.shape, np.nan)
    inside[np.isfinite(values) & np.isfinite(truth)] = [is_inside(one, cells) for one in found]
    return inside


def blind_serving(
    cases: Sequence[ServingBenchmark], predicted: Mapping[Held, Reals]
) -> dict[Held, Reals]:
    """The same with intervals from the errors of all other sources."""
    truth = np.array([measured(case.row) for case in cases])
    names = np.array([group_of(case, "source") for case in cases])
    found = errors_of(cases, predicted)
    known = {by: np.isfinite(values) & np.isfinite(truth) for by, values in predicted.items()}
    source = {by: names[np.nonzero(mask)[0]] for by, mask in known.items()}
    inside = {by: np.full(len(some), np.nan) for by, some in found.items()}
    for name in np.unique(names):
        cells = fit_cells(
            [
                one
                for by, some in found.items()
                for one, own in zip(some, source[by], strict=True)
                if own != name
            ]
        )
        for by, some in found.items():
            for i in np.flatnonzero(source[by] == name):
                inside[by][i] = is_inside(some[i], cells)
    result = {by: np.full(truth.shape, np.nan) for by in found}
    for by, values in result.items():
        values[known[by]] = inside[by]
    return result


def is_inside(one: HeldOutError, cells: Mapping[str, Cell]) -> float:
    """1 if the finest cell holds an error, 0 if not, NaN without a cell."""
    cell = cell_of(cells, one.query)
    return float("nan") if cell is None else float(cell.low <= one.error <= cell.high)


def stored_lines() -> Iterator[Line]:
    """Serving lines of the last run with --serving."""
    for item in json.loads(LEFT_OUT.read_text(encoding="utf-8")):
        if item["model"] == "serving":
            yield Line(**item | {"errors": ErrorStats(**item["errors"])})


def first_lines() -> Iterator[Line]:
    """First scores of newer files."""
    for entry in json.loads(FIRST.read_text(encoding="utf-8")):
        supported = f"{entry['supported']} of {entry['rows']}"
        for figure, cell in entry["figures"].items():
            found = ErrorStats(
                rows=cell["rows"],
                mean_abs_error=cell["mean"],
                median_abs_error=cell["median"],
                p90_abs_error=cell["p90"],
                bias=cell["bias"],
                coverage=cell["coverage"],
            )
            name = f"first score of {entry['table']}"
            yield Line(model="first", set=name, figure=figure, errors=found, supported=supported)


def text(line: Line) -> str:
    """One line of the table, in Markdown."""
    found = line.errors
    cells = [
        "" if value is None else f"{100 * value:{sign}.1f}"
        for value, sign in (
            (found.mean_abs_error, ""),
            (found.median_abs_error, ""),
            (found.p90_abs_error, ""),
            (found.bias, "+"),
            (found.coverage, ""),
            (line.blind_coverage, ""),
        )
    ]
    return f"| {line.set} | {line.figure} | {' | '.join(cells)} | {found.rows} | {line.supported} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serving", action="store_true", help="refit the serving model too")
    parser.add_argument("--cache", type=Path, help="serving predictions of accuracy_inference.py")
    parser.add_argument("--json", help="also write the lines to a file")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("GPUYARD_PUBLISHED", "."))
    print("| set | figure | mean | median | p90 | bias | inside | blind | rows | supported |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    lines = []
    serving = serving_lines(folder, arguments.cache) if arguments.serving else stored_lines()
    for source in (training_lines(folder), collective_lines(folder), serving, first_lines()):
        for line in source:
            if line.errors.rows:
                lines.append(line)
                print(text(line), flush=True)
    if arguments.json:
        plain = [asdict(line) for line in lines]
        Path(arguments.json).write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
