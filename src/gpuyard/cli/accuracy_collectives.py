"""What `gpuyard accuracy collectives` prints: a table, or JSON for scripts."""

from __future__ import annotations

from gpuyard.document import Plain
from gpuyard.report import Column, Table
from gpuyard.simulate.collectives.score import Errors, Score
from gpuyard.units import RATIO, show

__all__ = ["collectives_errors", "collectives_json"]


def collectives_json(score: Score) -> dict[str, Plain]:
    """The score as scripts read it; errors are fractions of bus bandwidth."""
    return {
        "rows": score.overall.rows + len(score.refused),
        "scored": score.overall.rows,
        **{name: value for name, value in _plain(score.overall).items() if name != "rows"},
        "unsupported": [{"system": item.system, "reason": item.why} for item in score.refused],
        "by_system": {item.name: _plain(item) for item in score.by_system},
        "by_collective": {item.name: _plain(item) for item in score.by_collective},
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
    groups = (score.overall, score.measured, score.relative, *score.by_collective, *score.by_system)
    return Table(
        columns=tuple(Column(heading=heading, numeric=heading != "rows of") for heading in headings),
        rows=tuple(
            (
                group.name,
                str(group.rows),
                *(
                    show(value, RATIO)
                    for value in (group.mean_abs_error, group.median_abs_error, group.p90_abs_error, group.bias)
                ),
            )
            for group in groups
            if group.rows
        ),
        notes=(f"{score.overall.rows} rows scored, {len(score.refused)} carry no usable number",),
    )
