"""What `gpuyard accuracy collectives` prints: a table, or JSON for scripts."""

from __future__ import annotations

from gpuyard.document import Plain
from gpuyard.perf.score import Errors
from gpuyard.report import Column, Table
from gpuyard.simulate.collectives.score import Group, Score
from gpuyard.units import RATIO, show

__all__ = ["collectives_errors", "collectives_json"]


def collectives_json(score: Score) -> dict[str, Plain]:
    """The score as scripts read it; errors are fractions of bus bandwidth."""
    return {
        "rows": score.overall.rows + len(score.refused),
        "scored": score.overall.rows,
        **{name: value for name, value in _plain(score.overall).items() if name != "rows"},
        "unsupported": [{"system": item.system, "reason": item.why} for item in score.refused],
        "by_system": {item.name: _plain(item.errors) for item in score.by_system},
        "by_collective": {item.name: _plain(item.errors) for item in score.by_collective},
        "per_row": [
            {
                "system": row.measured.system,
                "collective": row.measured.collective,
                "size_bytes": row.measured.size_bytes,
                "predicted_s": row.predicted_s,
                "predicted_bytes_per_s": row.predicted_bytes_per_s,
                "measured_bytes_per_s": row.measured_bytes_per_s,
                "error": row.error,
            }
            for row in score.rows
        ],
    }


def _plain(errors: Errors) -> dict[str, Plain]:
    """Errors by name."""
    return {
        "rows": errors.rows,
        "mean_abs_error": errors.mean_abs_error,
        "median_abs_error": errors.median_abs_error,
        "p90_abs_error": errors.p90_abs_error,
        "bias": errors.bias,
    }


def collectives_errors(score: Score) -> Table:
    """The errors of all rows, then by collective and system."""
    headings = ("rows of", "rows", "mean", "median", "p90", "bias")
    groups = (
        Group(name="all", errors=score.overall),
        Group(name="measured", errors=score.measured),
        Group(name="shares of a line rate", errors=score.relative),
        *score.by_collective,
        *score.by_system,
    )
    return Table(
        columns=tuple(Column(heading=heading, numeric=heading != "rows of") for heading in headings),
        rows=tuple((group.name, *_cells(group.errors)) for group in groups if group.errors.rows),
        notes=(f"{score.overall.rows} rows scored, {len(score.refused)} carry no usable number",),
    )


def _cells(errors: Errors) -> tuple[str, ...]:
    """The errors of some rows, as they are printed."""
    values = (errors.mean_abs_error, errors.median_abs_error, errors.p90_abs_error, errors.bias)
    return (str(errors.rows), *("" if value is None else show(value, RATIO) for value in values))
