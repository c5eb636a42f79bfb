"""Data-quality checks of a profile: a table of functions over the measured columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuyard.datasets.profile.label_association import is_classes
from gpuyard.datasets.profile.measures import ColumnProfile, DatasetProfile
from gpuyard.errors import Finding, Severity

LEAK_RATIO = 0.98  # predictive power of one column that suggests leakage
MIN_ROWS = 50
ID_RATIO = 0.99
MOSTLY_NULL_RATIO = 0.5
MOSTLY_CONSTANT_RATIO = 0.995
SKEWED = 3.0
RARE_CLASS_RATIO = 0.05
OUTLIERS_RATIO = 0.05
MIXED_RATIOS = (0.01, 0.999)  # a text column is mixed if its fraction of numbers is between these
MAX_ID_CHARACTERS = 64

Check = Callable[[DatasetProfile], Iterator[Finding]]


def _finding(rule: str, where: str, what: str, fix: str, severity: Severity = "warning") -> Finding:
    return Finding(rule=rule, severity=severity, where=where, what=what, fix=fix)


def _features(profile: DatasetProfile) -> list[ColumnProfile]:
    return [column for column in profile.columns if column.name != profile.label]


def _present(profile: DatasetProfile, column: ColumnProfile) -> int:
    return profile.rows_count - column.nulls_count


def empty(profile: DatasetProfile) -> Iterator[Finding]:
    """Report a table without rows."""
    if not profile.rows_count:
        fix = "use a source with data"
        yield _finding("empty", profile.source, "has no rows", fix, severity="error")


def unreadable(profile: DatasetProfile) -> Iterator[Finding]:
    """Report rows that could not be read."""
    if profile.unreadable_count:
        what = f"{profile.unreadable_count:,} rows do not fit the columns and are not counted here"
        fix = "run `gpuyard data run` to quarantine them with the reason"
        yield _finding("unreadable", profile.source, what, fix)


def leakage(profile: DatasetProfile) -> Iterator[Finding]:
    """Report columns that contain the label."""
    copies = {name for pair in profile.same if profile.label in pair for name in pair}
    for column in _features(profile):
        power = column.association.predictive_power_ratio if column.association else 0.0
        if column.name in copies:
            what = f'equals the label "{profile.label}"'
            yield _finding("leakage", column.name, what, "exclude it from the features")
        elif power >= LEAK_RATIO and profile.sampled_count >= MIN_ROWS:
            what = (
                "predicts the label almost on its own, likely leakage "
                f"(predictive power {power:.1%} on held-out rows)"
            )
            fix = "exclude it unless it is known before the label"
            yield _finding("leakage", column.name, what, fix)


def id_like(profile: DatasetProfile) -> Iterator[Finding]:
    """Report columns that identify rows."""
    for column in _features(profile):
        present = _present(profile, column)
        short_text = column.kind == "text" and (column.longest or 0) <= MAX_ID_CHARACTERS
        candidate = short_text or column.dtype.startswith(("Int", "UInt"))
        if present >= MIN_ROWS and candidate and column.distinct_count >= ID_RATIO * present:
            order = ", in ascending order" if column.ordered else ""
            what = f"has a different value in every row{order}"
            yield _finding("id", column.name, what, "exclude it: it identifies rows")


def duplicate_rows(profile: DatasetProfile) -> Iterator[Finding]:
    """Report rows that occur more than once."""
    if profile.duplicates_count:
        about = "" if profile.duplicates_exact else "about "
        share = profile.duplicates_count / profile.rows_count
        what = f"{about}{profile.duplicates_count:,} rows ({share:.2%}) repeat an earlier one"
        yield _finding("duplicates", profile.source, what, "add the step `deduplicate: {}`")


def duplicate_columns(profile: DatasetProfile) -> Iterator[Finding]:
    """Report columns that are equal."""
    for first, second in profile.same:
        if profile.label not in (first, second):
            yield _finding("same", second, f'equals "{first}" in every row', "exclude one of them")


def constant(profile: DatasetProfile) -> Iterator[Finding]:
    """Report columns without information."""
    for column in profile.columns:
        present = _present(profile, column)
        if profile.rows_count and not present:
            yield _finding("nulls", column.name, "is null in every row", "exclude it")
        elif present and column.distinct_count <= 1:
            yield _finding("constant", column.name, "has only one value", "exclude it")
        elif column.top and column.distinct_count > 1:
            share = column.top[0].rows_count / max(sum(value.rows_count for value in column.top), 1)
            if share >= MOSTLY_CONSTANT_RATIO and profile.sampled_count >= MIN_ROWS:
                what = f'is "{column.top[0].text}" in {share:.1%} of the rows'
                yield _finding("constant", column.name, what, "check whether it helps the model")


def nulls(profile: DatasetProfile) -> Iterator[Finding]:
    """Report columns that are mostly missing, and missing labels."""
    for column in profile.columns:
        share = column.nulls_count / profile.rows_count if profile.rows_count else 0.0
        if column.name == profile.label and 0 < share < 1:
            what = f"the label is missing in {column.nulls_count:,} rows ({share:.1%})"
            yield _finding("nulls", column.name, what, "drop those rows: `drop_nulls`")
        elif MOSTLY_NULL_RATIO <= share < 1:
            what = f"is null in {share:.1%} of the rows"
            yield _finding("nulls", column.name, what, "impute it, or exclude it")


def mixed(profile: DatasetProfile) -> Iterator[Finding]:
    """Report text columns in which some values are numbers."""
    low, high = MIXED_RATIOS
    for column in profile.columns:
        if column.numeric_ratio is not None and low <= column.numeric_ratio <= high:
            what = f"is text, but {column.numeric_ratio:.1%} of its values are numbers"
            fix = "cast it: other values are quarantined with the reason"
            yield _finding("mixed", column.name, what, fix)


def infinities(profile: DatasetProfile) -> Iterator[Finding]:
    """Report infinite values and NaN."""
    fix = "make them null, then impute them"
    for column in profile.columns:
        for count, kind in ((column.infinite_count, "infinite"), (column.nan_count, "NaN")):
            if count:
                yield _finding("infinite", column.name, f"{count:,} values are {kind}", fix)


def skew(profile: DatasetProfile) -> Iterator[Finding]:
    """Report columns with a long tail, or with many outliers."""
    for column in _features(profile):
        skewed = column.kind == "number" and abs(column.skew or 0.0) >= SKEWED
        if skewed and column.distinct_count > 2:
            fix = "use a log, Yeo-Johnson or quantile transform, or clip it"
            yield _finding("skew", column.name, f"is skewed ({column.skew:.1f})", fix)
        elif column.outliers_ratio is not None and column.outliers_ratio >= OUTLIERS_RATIO:
            what = f"{column.outliers_ratio:.1%} of its values are outliers"
            yield _finding("outliers", column.name, what, "clip it, or use robust scaling")


def imbalance(profile: DatasetProfile) -> Iterator[Finding]:
    """Report rare classes."""
    label = next((column for column in profile.columns if column.name == profile.label), None)
    if label is None or not is_classes(label):
        return
    if len(label.top) < 2 or label.distinct_count != len(label.top):
        return
    total, rarest = sum(value.rows_count for value in label.top), label.top[-1]
    if rarest.rows_count < RARE_CLASS_RATIO * total:
        what = f'class "{rarest.text}" has {rarest.rows_count / total:.2%} of the rows'
        fix = "stratify the split; evaluate with ROC AUC or log loss, not accuracy"
        yield _finding("imbalance", label.name, what, fix)


CHECKS: tuple[Check, ...] = (
    empty,
    unreadable,
    leakage,
    id_like,
    duplicate_rows,
    duplicate_columns,
    constant,
    nulls,
    mixed,
    infinities,
    imbalance,
    skew,
)


def check(profile: DatasetProfile) -> tuple[Finding, ...]:
    """Return all findings, in the order of the checks."""
    return tuple(finding for run in CHECKS for finding in run(profile))
