"""Profile a table: two to four streamed passes over all rows, the rest over a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from gpuyard.datasets.columns import unknown_column
from gpuyard.datasets.profile.checks import check
from gpuyard.datasets.profile.full_scan import (
    TableSource,
    count_duplicates,
    count_rows,
    equal_pairs,
    measure_columns,
    sample,
)
from gpuyard.datasets.profile.label_association import association_with_label
from gpuyard.datasets.profile.measures import ColumnProfile, DatasetProfile
from gpuyard.datasets.profile.shape import correlations, with_distribution
from gpuyard.errors import InputError

# At this size a quantile's rank is within 0.2 % in 99 of 100 cases (Dvoretzky-Kiefer-Wolfowitz).
SAMPLE_ROWS = 500_000
PASSES = ("counting rows", "measuring columns", "counting duplicate rows", "sampling rows")

Progress = Callable[[int, int, str], None]


def _ignore_progress(done: int, total: int, what: str) -> None:
    pass


def _describe(
    columns: tuple[ColumnProfile, ...],
    sampled: pl.DataFrame,
    label: str | None,
    report: Callable[[int, str], None],
) -> tuple[ColumnProfile, ...]:
    """Return the columns with their distribution and their association with the label."""
    described = []
    for number, column in enumerate(columns):
        report(number, f"distribution of {column.name}")
        if column.kind != "other":
            column = with_distribution(column, sampled[column.name])
        described.append(column)
    target = next((column for column in described if column.name == label), None)
    if target is None or target.kind == "other":
        return tuple(described)
    for number, column in enumerate(described):
        if column.name != label and column.kind != "other":
            report(len(described) + number, f"association of {column.name} with the label")
            association = association_with_label(
                column, sampled[column.name], target, sampled[target.name]
            )
            described[number] = replace(column, association=association)
    return tuple(described)


def profile(
    name: str,
    frame: pl.LazyFrame,
    label: str | None = None,
    *,
    unreadable_count: int = 0,
    sample_rows: int = SAMPLE_ROWS,
    on_progress: Progress = _ignore_progress,
) -> DatasetProfile:
    """Profile a table of any size; `on_progress` receives steps done, total steps and the step."""
    source = TableSource(name=name, frame=frame)
    names = tuple(source.schema())
    if label is not None and label not in names:
        raise InputError([unknown_column("--label", label, names)])
    total = len(PASSES) + 2 * len(names) + 1

    def report(done: int, what: str) -> None:
        on_progress(len(PASSES) + done, total, what)

    on_progress(0, total, PASSES[0])
    rows = count_rows(source)
    on_progress(1, total, PASSES[1])
    measured = measure_columns(source, rows)
    on_progress(2, total, PASSES[2])
    duplicates, exact = count_duplicates(source, rows)
    on_progress(3, total, PASSES[3])
    sampled = sample(source, rows, measured, sample_rows)
    with np.errstate(
        all="ignore"
    ):  # extreme numbers overflow; results that are not finite are omitted
        columns = _describe(measured, sampled, label, report)
        on_progress(total - 1, total, "comparing columns")
        matrix = correlations(columns, sampled, label)
    result = DatasetProfile(
        source=name,
        rows_count=rows,
        sampled_count=len(sampled) if sampled.width else rows,
        duplicates_count=duplicates,
        duplicates_exact=exact,
        label=label,
        columns=columns,
        correlations=matrix,
        same=equal_pairs(source, columns, sampled),
        unreadable_count=unreadable_count,
    )
    on_progress(total, total, "done")
    return replace(result, findings=check(result))
