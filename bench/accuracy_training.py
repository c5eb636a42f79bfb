"""The errors of the training model on published runs, as Markdown: `python bench/accuracy_training.py [FILE.csv...]`.

Columns: fitted to all rows; with whole (source, model, chip) groups left out of the fit; with a whole source left out
and each of its stacks' scalars set from three of its runs; with a whole source left out and nothing set.
Without a file: the tables in the folder that GPUYARD_PUBLISHED names, or the curated one of the tests.
Paste it into the documentation with `python tools/training_reference.py --errors FILE.md`. A minute.
"""

from __future__ import annotations

import csv
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.training import refit
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.calibration import PATH, read_calibration
from gpuyard.perf.layout import Array
from gpuyard.perf.runs import PublishedRuns, read_runs
from gpuyard.perf.score import (
    ErrorStats,
    errors,
    group_folds,
    hold_out,
    predict,
    predicted_bytes,
    scored_rows,
    source_of,
    three_points,
)

CURATED = Path(__file__).parent.parent / "tests" / "accuracy" / "training_runs.csv"
PUBLISHED = ("training_runs.csv", "training_runs_2025h2.csv")
COLUMNS = ("in sample", "groups out", "source out, 3 points", "source out")
Mask = npt.NDArray[np.bool_]


def paths(arguments: Sequence[str]) -> list[Path]:
    """The tables to score."""
    if arguments:
        return [Path(name) for name in arguments]
    folder = os.environ.get("GPUYARD_PUBLISHED")
    return [Path(folder) / name for name in PUBLISHED] if folder else [CURATED]


def predictions(runs: PublishedRuns) -> tuple[Array, ...]:
    """One column of predicted steps for each way to fit."""
    calibration, rows = read_calibration(), scored_rows(runs)
    fitted = np.full(len(runs.rows), np.nan)
    fitted[rows] = predict(runs, calibration, rows)
    bare = hold_out(runs, [source_of(row["id"]) for row in runs.rows], calibration, refit)
    groups_out = hold_out(runs, group_folds(runs), calibration, refit)
    return fitted, groups_out, three_points(runs, bare), bare


def groups(runs: PublishedRuns) -> tuple[tuple[str, tuple[tuple[str, Mask], ...]], ...]:
    """The rows by kind, chip and source."""
    experts = runs.arch.experts > 0
    tpu = np.array([silicon.generation == "tpu" for silicon in runs.silicon])
    kinds = (
        ("all", np.ones_like(tpu)),
        ("dense", ~experts),
        ("MoE", experts),
        ("TPU, dense and MoE", tpu),
    )
    chips = np.array([silicon.name for silicon in runs.silicon])
    sources = np.array([source_of(row["id"]) for row in runs.rows])
    return (
        ("kind", kinds),
        ("chip", tuple((str(name), chips == name) for name in np.unique(chips))),
        ("source", tuple((str(name), sources == name) for name in np.unique(sources))),
    )


def cell(found: ErrorStats) -> str:
    """Mean and median error in per cent."""
    if found.mean_abs_error is None or found.median_abs_error is None:
        return ""
    return f"{100 * found.mean_abs_error:.1f} ({100 * found.median_abs_error:.1f})"


def table(
    name: str, parts: Sequence[tuple[str, Mask]], columns: Sequence[Array], measured: Array
) -> str:
    """One Markdown table: a line for each group that has a measured step."""
    lines = [f"| {name} | rows | {' | '.join(COLUMNS)} |", "|---" * (2 + len(COLUMNS)) + "|"]
    for label, mask in parts:
        found = [errors(column[mask], measured[mask]) for column in columns]
        if found[0].rows:
            lines.append(
                f"| {label} | {found[0].rows} | {' | '.join(cell(one) for one in found)} |"
            )
    return "\n".join(lines)


def memory_table(runs: PublishedRuns) -> str:
    """Errors of the memory model, which is not fitted to steps."""
    predicted = predicted_bytes(runs)
    sources = np.array([source_of(row["id"]) for row in runs.rows])
    parts = [
        ("all", np.ones(len(sources), dtype=bool)),
        *((str(name), sources == name) for name in np.unique(sources)),
    ]
    lines = ["| memory | rows | mean (median) | bias |", "|---|---|---|---|"]
    for label, mask in parts:
        found = errors(predicted[mask], runs.memory_bytes[mask])
        if found.bias is not None:
            lines.append(f"| {label} | {found.rows} | {cell(found)} | {100 * found.bias:+.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the tables."""
    table_rows: list[dict[str, str]] = []
    for path in paths(sys.argv[1:]):
        with path.open(newline="", encoding="utf-8") as file:
            table_rows += csv.DictReader(file)
    runs = read_runs(table_rows, load_catalog())
    columns = predictions(runs)
    fingerprint = hashlib.sha256(PATH.read_bytes()).hexdigest()[:8]
    print(
        f"Calibration `{fingerprint}`; {len(runs.rows)} rows supported, {len(runs.unsupported)} not."
    )
    print(
        f"{len(scored_rows(runs))} have a step time. Mean (median) of |predicted / measured - 1|, in per cent."
    )
    for name, parts in groups(runs):
        print(f"\n{table(name, parts, columns, runs.reference_s)}")
    print(f"\n{memory_table(runs)}")


if __name__ == "__main__":
    main()
