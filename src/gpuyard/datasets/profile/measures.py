"""Profile of a dataset: statistics of every column, association with the label, findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.datasets.columns import Kind
from gpuyard.document.field_types import FormerName
from gpuyard.errors import Finding

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Bar of a histogram, from `low` to `high`."""

    low: float
    high: float
    rows_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Value and the number of sampled rows that have it."""

    text: str
    rows_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAssociation:
    """Association of a column with the label, over the sampled rows that have both."""

    measure: Literal["pearson", "cramer_v", "correlation_ratio"]  # numbers; categories; one of each
    strength: float  # Pearson from -1 to 1, the others from 0 to 1
    spearman: float | None = None
    information_ratio: float | None = None  # mutual information / entropy of a label of classes
    # Fraction of the baseline error that the column removes on its own, on held-out rows.
    predictive_power_ratio: Annotated[float, FormerName("alone_ratio")] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """Statistics of one column: counts, range, mean and std of all rows, the rest of a sample."""

    name: str
    dtype: str
    kind: Kind
    nulls_count: int
    distinct_count: int
    distinct_exact: bool  # else estimated by hashes
    nan_count: int = 0
    infinite_count: int = 0
    zeros_count: int = 0
    min: Annotated[str | None, FormerName("least")] = None
    max: Annotated[str | None, FormerName("greatest")] = None
    mean: float | None = None
    std: Annotated[float | None, FormerName("deviation")] = None
    skew: float | None = None
    shortest: int | None = None  # characters of a text
    longest: int | None = None
    mean_bytes: float | None = None  # of a text
    numeric_ratio: float | None = None  # fraction of texts that are numbers
    quantiles: tuple[float, ...] = ()  # at `QUANTILES`
    outliers_ratio: float | None = None  # beyond 1.5 interquartile ranges (Tukey 1977)
    histogram: tuple[Bin, ...] = ()
    top: tuple[Value, ...] = ()
    ordered: bool = False  # never decreases over the sampled rows
    association: Annotated[LabelAssociation | None, FormerName("tie")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlations:
    """Pearson correlation matrix of number columns; None where a column does not vary."""

    names: tuple[str, ...]
    rows: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetProfile:
    """Profile of a table."""

    source: str
    rows_count: int
    sampled_count: int
    duplicates_count: int  # rows that repeat an earlier one
    duplicates_exact: bool  # else estimated from a sample of row hashes
    label: str | None = None
    columns: tuple[ColumnProfile, ...]
    correlations: Correlations | None = None
    same: tuple[tuple[str, str], ...]  # columns that are equal in every row
    unreadable_count: int = 0  # rows of the source that do not fit its columns
    findings: tuple[Finding, ...] = ()
