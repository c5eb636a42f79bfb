"""One table of the errors of all performance models: `python bench/accuracy.py [--serving] [--json FILE]`.

Sets: in sample; groups, models, chips, releases and sources left out of the fit; first scores of newer files, taken once
before any fit to them (docs/data/first_scores.json). Columns: mean, median and 90th percentile of |predicted / measured - 1|,
bias, share of measured values inside the stated 90 % interval, rows, and supported rows of the file.
Reads the folder that GPUYARD_PUBLISHED names. --serving refits the serving model too, which takes most of the time.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from gpuyard.app.accuracy_serving import score_inference
from gpuyard.calibrate.collectives import hold_out_families
from gpuyard.calibrate.error_bars import held_out_steps, kinds_of
from gpuyard.calibrate.serving_holdout import HELD
from gpuyard.calibrate.training import refit
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.error_bars import LEVELS, Level, distance, training_error_bar
from gpuyard.perf.layout import Array
from gpuyard.perf.runs import PublishedRuns, read_runs
from gpuyard.perf.score import ErrorStats, errors, hold_out, scored_rows
from gpuyard.simulate.collectives.constants import read_constants
from gpuyard.simulate.collectives.published_collectives import read_measured
from gpuyard.simulate.collectives.score import (
    SMALL_BYTES,
    CollectiveScore,
    row_errors,
    score_measured,
)
from gpuyard.simulate.serving.score import ServingScore

FIRST = Path(__file__).parent.parent / "docs" / "data" / "first_scores.json"
TRAINING = ("training_runs.csv", "training_runs_2025h2.csv")
COLLECTIVES = ("nccl_refs.csv", "nccl_refs_2026.csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table."""

    set: str
    figure: str
    errors: ErrorStats
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
    supported = f"{len(runs.rows)} of {len(runs.rows) + len(runs.unsupported)}"
    calibration = read_calibration()
    held = held_out_steps(runs, calibration, refit)
    models = hold_out(runs, [row["model"] for row in runs.rows], calibration, refit)
    sets: tuple[tuple[str, Array, Level], ...] = (
        ("in sample", held.fitted, "run"),
        ("groups left out", held.by_level["group"], "group"),
        ("models left out", models, "group"),
        ("releases left out", held.by_level["release"], "release"),
        ("sources left out", held.by_level["stack"], "stack"),
        ("chip architectures left out", held.by_level["chip"], "chip"),
    )
    kinds = np.array(kinds_of(runs))
    fresh = {row["id"] for row in read(folder, TRAINING[1:])}
    for name, predicted, level in sets:
        bounds = training_bounds(runs, level)
        for figure, mask in (
            ("step time", kinds != ""),
            ("step time, dense", (kinds == "dense") | (kinds == "adapters")),
            ("step time, adapters", kinds == "adapters"),
            ("step time, MoE", kinds == "moe"),
            ("step time, TPU", kinds == "tpu"),
        ):
            low, high = (side[mask] for side in bounds)
            found = errors(predicted[mask], runs.reference_s[mask], bounds=(low, high))
            yield Line(set=name, figure=figure, errors=found, supported=supported)
        new = np.array([row["id"] in fresh for row in runs.rows])
        low, high = (side[new] for side in bounds)
        found = errors(predicted[new], runs.reference_s[new], bounds=(low, high))
        yield Line(set=name, figure=f"step time, {TRAINING[1]}", errors=found, supported=supported)
        within = inside_three(runs, predicted, bounds)
        print(f"{name}: {within} rows are off by more than 3 times their interval", file=sys.stderr)


def training_bounds(runs: PublishedRuns, least: Level) -> tuple[Array, Array]:
    """Error bars of all rows at their distance, at least that of the set."""
    kinds = kinds_of(runs)
    bars = []
    for index, kind in enumerate(kinds):
        own = distance(runs.silicon[index], runs.profiles[index], kind)
        level = max(own, least, key=LEVELS.index)
        bars.append(training_error_bar(level, kind, runs.profiles[index].name))
    return np.array([bar.low for bar in bars]), np.array([bar.high for bar in bars])


def inside_three(runs: PublishedRuns, predicted: Array, bounds: tuple[Array, Array]) -> int:
    """How many rows are farther from the prediction than three times the interval."""
    rows = scored_rows(runs)
    error = np.log(runs.reference_s[rows] / predicted[rows])
    return int(((error < 3 * bounds[0][rows]) | (error > 3 * bounds[1][rows])).sum())


def collective_lines(folder: Path) -> Iterator[Line]:
    """Bus bandwidth in sample and with systems left out."""
    items, refused = read_measured(read(folder, COLLECTIVES))
    supported = f"{len(items)} of {len(items) + len(refused)}"
    constants = read_constants()
    fresh = {row["system"] for row in read(folder, COLLECTIVES[1:])}
    scores: tuple[tuple[str, CollectiveScore], ...] = (
        ("in sample", score_measured(items, refused, constants)),
        ("sources left out", hold_out_families(items, constants)),
    )
    for name, score in scores:
        large = [row for row in score.rows if row.measured.size_bytes > SMALL_BYTES]
        new = [row for row in score.rows if row.measured.system in fresh]
        for figure, found in (
            ("bus bandwidth", score.overall),
            (f"bus bandwidth, {COLLECTIVES[1]}", row_errors(new)),
            ("bus bandwidth, over 1 MiB", row_errors(large)),
        ):
            yield Line(set=name, figure=figure, errors=found, supported=supported)


def serving_lines(folder: Path) -> Iterator[Line]:
    """Serving metrics in sample and with runs left out."""
    path, catalog = folder / "inference_runs.csv", load_catalog()
    for name in (None, *HELD):
        score: ServingScore = score_inference(path, catalog, held=name)
        supported = f"{score.scored} of {score.rows}"
        for group in (None, *score.by_kind):
            metrics = score.metrics if group is None else group.metrics
            for field in fields(metrics):
                yield Line(
                    set="in sample" if name is None else f"{name}s left out",
                    figure=field.name if group is None else f"{field.name}, {group.name}",
                    errors=getattr(metrics, field.name),
                    supported=supported,
                )


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
            yield Line(set=name, figure=figure, errors=found, supported=supported)


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
        )
    ]
    return f"| {line.set} | {line.figure} | {' | '.join(cells)} | {found.rows} | {line.supported} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serving", action="store_true", help="refit the serving model too")
    parser.add_argument("--json", help="also write the lines to a file")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("GPUYARD_PUBLISHED", "."))
    print("| set | figure | mean | median | p90 | bias | inside | rows | supported |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    lines = []
    sources = [training_lines(folder), collective_lines(folder)]
    sources += [serving_lines(folder)] if arguments.serving else []
    for source in (*sources, first_lines()):
        for line in source:
            if line.errors.rows:
                lines.append(line)
                print(text(line), flush=True)
    if arguments.json:
        plain = [asdict(line) for line in lines]
        Path(arguments.json).write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
