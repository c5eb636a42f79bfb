"""A dataset profile as text: columns, association with the label, findings."""

from __future__ import annotations

import datetime

from gpuyard.datasets.profile.measures import (
    QUANTILES,
    ColumnProfile,
    DatasetProfile,
    LabelAssociation,
)
from gpuyard.report.table import NOT_KNOWN, Table
from gpuyard.report.table import TableColumn as Heading

MEDIAN = QUANTILES.index(0.5)
MEASURES = {
    "pearson": "Pearson",
    "cramer_v": "Cramér's V",
    "correlation_ratio": "correlation ratio",
}
LONG = 28
TIES_NOTE = (
    "information: mutual information over the label's entropy. predictive power: share of the"
    " label that this column explains by itself in rows that it was not fitted on."
)


def number(value: float | None) -> str:
    """A number with four digits."""
    return (
        NOT_KNOWN
        if value is None
        else f"{value:,.0f}"
        if value == round(value) and abs(value) < 1e7
        else f"{value:.4g}"
    )


def share(count: int, total: int) -> str:
    """A share of the rows; a dash for zero."""
    return f"{count / total:.2%}" if count and total else NOT_KNOWN


def short(text: str | None) -> str:
    """A value shortened to fit a cell."""
    if text is None:
        return NOT_KNOWN
    line = text.replace("\n", "⏎")
    return line if len(line) <= LONG else f"{line[: LONG - 1]}…"


def moment(column: ColumnProfile, value: float) -> str:
    """A value on the column's axis; a time as a day or second."""
    if column.kind != "time":
        return number(value)
    try:
        when = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)
    except OverflowError:
        return number(value)
    return f"{when:%Y-%m-%d}" if column.dtype == "Date" else f"{when:%Y-%m-%d %H:%M:%S}"


def distinct(column: ColumnProfile) -> str:
    """Number of distinct values; `~` for an estimate."""
    return f"{'' if column.distinct_exact else '~'}{column.distinct_count:,}"


def tie_words(tie: LabelAssociation | None) -> str:
    """Association with the label, for a cell."""
    return (
        NOT_KNOWN
        if tie is None
        else f"{tie.strength:+.2f}"
        if tie.measure == "pearson"
        else f"{tie.strength:.2f}"
    )


def profile_summary(profile: DatasetProfile) -> str:
    """The profile in one line."""
    about = "" if profile.duplicates_exact else "about "
    parts = [
        f"{profile.rows_count:,} rows",
        f"{len(profile.columns)} columns",
        (
            f"{about}{profile.duplicates_count:,} duplicate rows"
            if profile.duplicates_count
            else "no duplicate rows"
        ),
    ]
    if profile.label:
        parts.append(f"label {profile.label}")
    return f"{profile.source}: {', '.join(parts)}"


def profile_notes(profile: DatasetProfile) -> tuple[str, ...]:
    """How the numbers were computed."""
    notes = []
    if profile.sampled_count < profile.rows_count:
        notes.append(
            f"Quantiles, histograms, outliers and correlations are of {profile.sampled_count:,}"
            " rows chosen by hash; all else is of every row."
        )
    if any(not column.distinct_exact for column in profile.columns):
        notes.append(
            "~ distinct values estimated: HyperLogLog, then the values of some hashes (right to"
            " about 0.2%)."
        )
    if not profile.duplicates_exact:
        notes.append("Duplicate rows are estimated from the rows of some hashes.")
    return tuple(notes)


def profile_table(profile: DatasetProfile) -> Table:
    """One row per column."""
    headings = (
        "column",
        "type",
        "nulls",
        "distinct",
        "min",
        "median or mode",
        "max",
        "mean",
        "std",
        "outliers",
    )
    rows = []
    for column in profile.columns:
        text = column.kind == "text"
        least, greatest = short(column.min), short(column.max)
        if text and column.longest is not None:
            least, greatest = f"{column.shortest} chars", f"{column.longest} chars"
        middle = moment(column, column.quantiles[MEDIAN]) if column.quantiles else NOT_KNOWN
        if not column.quantiles and column.top:
            middle = short(column.top[0].text)
        outliers = NOT_KNOWN if not column.outliers_ratio else f"{column.outliers_ratio:.1%}"
        cells = [
            column.name,
            column.dtype,
            share(column.nulls_count, profile.rows_count),
            distinct(column),
            least,
            middle,
            greatest,
            number(column.mean),
            number(column.std),
            outliers,
        ]
        rows.append((*cells, tie_words(column.association)) if profile.label else tuple(cells))
    columns = tuple(
        Heading(heading=name, numeric=name not in ("column", "type")) for name in headings
    )
    if profile.label:
        columns = (*columns, Heading(heading="with label", numeric=True))
    return Table(
        columns=columns,
        rows=tuple(rows),
        title=profile_summary(profile),
        notes=profile_notes(profile),
    )


def ties_table(profile: DatasetProfile, limit: int = 20) -> Table | None:
    """Columns by association with the label, strongest first; None without a label."""
    tied = [(column, column.association) for column in profile.columns if column.association]
    if not tied:
        return None
    tied.sort(
        key=lambda pair: (-pair[1].predictive_power_ratio, -abs(pair[1].strength), pair[0].name)
    )
    rows = tuple(
        (
            column.name,
            MEASURES[tie.measure],
            tie_words(tie),
            NOT_KNOWN if tie.spearman is None else f"{tie.spearman:+.2f}",
            NOT_KNOWN if tie.information_ratio is None else f"{tie.information_ratio:.2f}",
            f"{tie.predictive_power_ratio:.0%}",
        )
        for column, tie in tied[:limit]
    )
    names = ("column", "measure", "strength", "Spearman", "information", "predictive power")
    notes: tuple[str, ...] = (TIES_NOTE,)
    if len(tied) > limit:
        notes = (*notes, f"{len(tied) - limit} more columns go with it less.")
    columns = tuple(Heading(heading=name, numeric=index > 1) for index, name in enumerate(names))
    return Table(columns=columns, rows=rows, title=f"with the label {profile.label}", notes=notes)


def suspicions_table(profile: DatasetProfile) -> Table | None:
    """Findings of the profile; None without any."""
    if not profile.findings:
        return None
    rows = tuple((one.rule, one.where, one.what, one.fix) for one in profile.findings)
    columns = tuple(Heading(heading=name) for name in ("check", "where", "what", "fix"))
    return Table(columns=columns, rows=rows, title=f"warnings: {len(rows)}")
