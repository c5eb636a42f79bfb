"""Output of `gpuyard accuracy collectives`: a table, or JSON for scripts."""

from __future__ import annotations

from gpuyard.document.encode import plain
from gpuyard.document.frozen_json import Plain
from gpuyard.perf.score import ErrorStats
from gpuyard.report.table import Table, table_columns
from gpuyard.simulate.collectives.score import CollectiveErrors, CollectiveScore
from gpuyard.units import RATIO, show


def collectives_json(score: CollectiveScore) -> dict[str, Plain]:
    """The score as JSON; errors are fractions of bus bandwidth."""
    return {
        "rows": score.overall.rows + len(score.refused),
        "scored": score.overall.rows,
        **{name: value for name, value in _plain(score.overall).items() if name != "rows"},
        "unsupported": [{"system": item.system, "reason": item.why} for item in score.refused],
        "by_system": {item.name: _plain(item.errors) for item in score.by_system},
        "by_size": {item.name: _plain(item.errors) for item in score.by_size},
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
                "distance": row.level,
                "interval": plain(row.bar.around(row.predicted_s)),
            }
            for row in score.rows
        ],
    }


def _plain(errors: ErrorStats) -> dict[str, Plain]:
    return {
        "rows": errors.rows,
        "mean_abs_error": errors.mean_abs_error,
        "median_abs_error": errors.median_abs_error,
        "p90_abs_error": errors.p90_abs_error,
        "bias": errors.bias,
        "coverage": errors.coverage,
    }


def collectives_errors(score: CollectiveScore) -> Table:
    """Errors over all rows, then by collective and system."""
    groups = (
        CollectiveErrors(name="all", errors=score.overall),
        CollectiveErrors(name="measured", errors=score.measured),
        CollectiveErrors(name="fraction of line rate", errors=score.relative),
        *score.by_size,
        *score.by_collective,
        *score.by_system,
    )
    return Table(
        columns=table_columns("rows of", ">rows", ">mean", ">median", ">p90", ">bias", ">in 90 %"),
        rows=tuple((group.name, *_cells(group.errors)) for group in groups if group.errors.rows),
        notes=(f"{score.overall.rows} rows scored, {len(score.refused)} carry no usable number",),
    )


def _cells(errors: ErrorStats) -> tuple[str, ...]:
    values = (
        errors.mean_abs_error,
        errors.median_abs_error,
        errors.p90_abs_error,
        errors.bias,
        errors.coverage,
    )
    return (str(errors.rows), *("" if value is None else show(value, RATIO) for value in values))
