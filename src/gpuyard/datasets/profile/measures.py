"""What a profile holds: every column measured, the label's company, and what looks wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuyard.datasets.columns import Kind

__all__ = ["QUANTILES", "Bin", "Column", "Correlations", "Profile", "Suspicion", "Tie", "Value"]

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """A bar of a histogram: from `low` up to `high`."""

    low: float
    high: float
    rows_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value and how many of the sampled rows have it."""

    text: str
    rows_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """How a column goes with the label; all in the sampled rows that have both."""

    measure: Literal["pearson", "cramer_v", "correlation_ratio"]  # numbers; categories; one of each
    strength: float  # Pearson from -1 to 1, the others from 0 to 1
    spearman: float | None = None
    information_ratio: float | None = None  # mutual information over the entropy of a label of classes
    alone_ratio: float = 0.0  # of what is to explain, the part that this column explains in rows it was not fitted on


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. Counts, range, mean and deviation are of all rows; the rest is of the sampled rows."""

    name: str
    dtype: str
    kind: Kind
    nulls_count: int
    distinct_count: int
    distinct_exact: bool  # else estimated by hashes
    nan_count: int = 0
    infinite_count: int = 0
    zeros_count: int = 0
    least: str | None = None
    greatest: str | None = None
    mean: float | None = None
    deviation: float | None = None
    skew: float | None = None
    shortest: int | None = None  # characters of a text
    longest: int | None = None
    mean_bytes: float | None = None  # of a text
    numeric_ratio: float | None = None  # of the texts that are there, those that are numbers
    quantiles: tuple[float, ...] = ()  # at `QUANTILES`
    outliers_ratio: float | None = None  # beyond 1.5 quartile distances (Tukey 1977)
    histogram: tuple[Bin, ...] = ()
    top: tuple[Value, ...] = ()
    ordered: bool = False  # never falls from row to row of the sample
    tie: Tie | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlations:
    """Pearson's coefficient of every two columns of numbers, row by row; None where one of them does not vary."""

    names: tuple[str, ...]
    rows: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """Something that looks wrong: which check saw it, where, what, and what to do."""

    check: str
    where: str
    what: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A table measured."""

    source: str
    rows_count: int
    sampled_count: int
    duplicates_count: int  # rows that repeat an earlier one
    duplicates_exact: bool  # else estimated from the rows of some hashes
    label: str | None = None
    columns: tuple[Column, ...]
    correlations: Correlations | None = None
    same: tuple[tuple[str, str], ...]  # columns that are equal in every row
    unreadable_count: int = 0  # rows of the source that do not fit its columns
    suspicions: tuple[Suspicion, ...] = ()
