"""What looks wrong with a table: a table of checks, each over the measured columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuyard.datasets.profile.measures import Column, Profile, Suspicion
from gpuyard.datasets.profile.ties import is_classes

__all__ = ["CHECKS", "check"]

ALONE = 0.98  # of the label, explained by one column in rows that it was not fitted on
LEAST_ROWS = 50
ID_RATIO = 0.99
MOSTLY_NULL = 0.5
MOSTLY_SAME = 0.995
SKEWED = 3.0
RARE_CLASS = 0.05
OUTLIERS = 0.05
MIXED = (0.01, 0.999)  # between these parts of the texts are numbers

Check = Callable[[Profile], Iterator[Suspicion]]


def _features(profile: Profile) -> list[Column]:
    """The columns other than the label."""
    return [column for column in profile.columns if column.name != profile.label]


def _present(profile: Profile, column: Column) -> int:
    """Rows that have a value."""
    return profile.rows_count - column.nulls_count


def empty(profile: Profile) -> Iterator[Suspicion]:
    """No rows at all."""
    if not profile.rows_count:
        yield Suspicion(check="empty", where=profile.source, what="has no rows", fix="name a source that has some")


def unreadable(profile: Profile) -> Iterator[Suspicion]:
    """Rows that could not be read."""
    if profile.unreadable_count:
        what = f"{profile.unreadable_count:,} rows do not fit the columns and are not in these numbers"
        fix = "`gpuyard data run` keeps them apart with the reason of each"
        yield Suspicion(check="unreadable", where=profile.source, what=what, fix=fix)


def leakage(profile: Profile) -> Iterator[Suspicion]:
    """Columns that know the label."""
    twins = {name for pair in profile.same if profile.label in pair for name in pair} - {profile.label}
    for column in _features(profile):
        if column.name in twins:
            what = f'is the label "{profile.label}" itself'
            yield Suspicion(check="leakage", where=column.name, what=what, fix="leave it out of the features")
        elif column.tie and column.tie.alone_ratio >= ALONE and profile.sampled_count >= LEAST_ROWS:
            what = f"tells the label almost alone ({column.tie.alone_ratio:.1%} of it in rows it was not fitted on)"
            yield Suspicion(
                check="leakage", where=column.name, what=what,
                fix="leave it out unless it is known before the label is",
            )  # fmt: skip


def id_like(profile: Profile) -> Iterator[Suspicion]:
    """Columns that number the rows."""
    for column in _features(profile):
        present = _present(profile, column)
        whole = column.dtype.startswith(("Int", "UInt")) or (column.kind == "text" and (column.longest or 0) <= 64)
        if present >= LEAST_ROWS and whole and column.distinct_count >= ID_RATIO * present:
            what = "has a value of its own in every row" + (", in rising order" if column.ordered else "")
            yield Suspicion(check="id", where=column.name, what=what, fix="leave it out: it names rows")


def duplicate_rows(profile: Profile) -> Iterator[Suspicion]:
    """Rows that occur twice."""
    if profile.duplicates_count:
        about = "" if profile.duplicates_exact else "about "
        share = profile.duplicates_count / profile.rows_count
        what = f"{about}{profile.duplicates_count:,} rows ({share:.2%}) repeat an earlier one"
        yield Suspicion(check="duplicates", where=profile.source, what=what, fix="add the step `deduplicate: {}`")


def duplicate_columns(profile: Profile) -> Iterator[Suspicion]:
    """Columns that are equal."""
    for first, second in profile.same:
        if profile.label not in (first, second):
            yield Suspicion(check="same", where=second, what=f'equals "{first}" in every row', fix="leave one out")


def constant(profile: Profile) -> Iterator[Suspicion]:
    """Columns that say nothing."""
    for column in profile.columns:
        present = _present(profile, column)
        if profile.rows_count and not present:
            yield Suspicion(check="nulls", where=column.name, what="is null in every row", fix="leave it out")
        elif present and column.distinct_count <= 1:
            yield Suspicion(check="constant", where=column.name, what="has one value only", fix="leave it out")
        elif column.top and column.distinct_count > 1:
            share = column.top[0].rows_count / max(sum(value.rows_count for value in column.top), 1)
            if share >= MOSTLY_SAME and profile.sampled_count >= LEAST_ROWS:
                what = f'is "{column.top[0].text}" in {share:.1%} of the rows'
                yield Suspicion(check="constant", where=column.name, what=what, fix="see whether it helps at all")


def nulls(profile: Profile) -> Iterator[Suspicion]:
    """Columns that are mostly missing, and a label that is."""
    for column in profile.columns:
        share = column.nulls_count / profile.rows_count if profile.rows_count else 0.0
        if column.name == profile.label and 0 < share < 1:
            what = f"the label is missing in {column.nulls_count:,} rows ({share:.1%})"
            yield Suspicion(check="nulls", where=column.name, what=what, fix="drop those rows: `drop_nulls`")
        elif MOSTLY_NULL <= share < 1:
            yield Suspicion(
                check="nulls", where=column.name, what=f"is null in {share:.1%} of the rows",
                fix="impute it, or leave it out",
            )  # fmt: skip


def mixed(profile: Profile) -> Iterator[Suspicion]:
    """Texts some of which are numbers."""
    for column in profile.columns:
        if column.numeric_ratio is not None and MIXED[0] <= column.numeric_ratio <= MIXED[1]:
            what = f"is text, but {column.numeric_ratio:.1%} of it are numbers"
            fix = "cast it: what is no number is then kept apart with the reason"
            yield Suspicion(check="mixed", where=column.name, what=what, fix=fix)


def infinities(profile: Profile) -> Iterator[Suspicion]:
    """Values that no model takes."""
    for column in profile.columns:
        for count, word in ((column.infinite_count, "infinite"), (column.nan_count, "not a number (NaN)")):
            if count:
                fix = "make them null, then impute them"
                yield Suspicion(check="infinite", where=column.name, what=f"{count:,} values are {word}", fix=fix)


def skew(profile: Profile) -> Iterator[Suspicion]:
    """Columns with one long tail, or with many values far out."""
    for column in _features(profile):
        if (
            column.kind == "number"
            and column.skew is not None
            and abs(column.skew) >= SKEWED
            and column.distinct_count > 2
        ):
            fix = "take its logarithm, Yeo-Johnson or quantiles, or clip it"
            yield Suspicion(check="skew", where=column.name, what=f"is skewed ({column.skew:.1f})", fix=fix)
        elif column.outliers_ratio is not None and column.outliers_ratio >= OUTLIERS:
            what = f"{column.outliers_ratio:.1%} of its values are outliers"
            yield Suspicion(check="outliers", where=column.name, what=what, fix="clip it, or scale it by quartiles")


def imbalance(profile: Profile) -> Iterator[Suspicion]:
    """Classes that hardly occur."""
    label = next((column for column in profile.columns if column.name == profile.label), None)
    if label is None or not is_classes(label) or len(label.top) < 2 or label.distinct_count != len(label.top):
        return
    total, rare = sum(value.rows_count for value in label.top), label.top[-1]
    if rare.rows_count < RARE_CLASS * total:
        what = f'class "{rare.text}" has {rare.rows_count / total:.2%} of the rows'
        fix = "stratify the split; judge by ROC AUC or log loss, not by accuracy"
        yield Suspicion(check="imbalance", where=label.name, what=what, fix=fix)


CHECKS: tuple[Check, ...] = (
    empty, unreadable, leakage, id_like, duplicate_rows, duplicate_columns, constant, nulls, mixed, infinities,
    imbalance, skew,
)  # fmt: skip


def check(profile: Profile) -> tuple[Suspicion, ...]:
    """Everything that looks wrong, in the order of the checks."""
    return tuple(suspicion for one in CHECKS for suspicion in one(profile))
