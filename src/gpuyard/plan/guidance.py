"""The provider's published guidance as a reason of an option."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.catalog.guidance import Guidance
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.workload.workload import Workload

# Model sizes of a row's scope; the pages write "tens", "hundreds of billions" and "trillions".
SCOPES: dict[str, tuple[float, float]] = {
    "frontier-pretraining": (100e9, float("inf")),
    "large-training": (10e9, 1e12),
    "single-host-inference": (10e9, 1e12),
    "small-models": (0.0, 10e9),
}


def guidance_reason(workload: Workload, machine: Machine, catalog: Catalog) -> str:
    """Report whether the provider names the machine's series for this work, with the source."""
    if machine.provider != "google":
        return f"No provider publishes guidance for {machine.name}."
    rows = [
        row for row in catalog.guidance if row.task == workload.task and _applies(row, workload)
    ]
    named = [row for row in rows if machine.series in row.series]
    if named:
        others = [row for row in rows if row not in named]
        reason = f"Google recommends {machine.series} for {_scopes(named)}{_cited(named, catalog)}"
        return f"{reason}, not for {_scopes(others)}." if others else f"{reason}."
    if rows:
        best = rows[0]
        smaller = [
            row
            for row in catalog.guidance
            if row.task == workload.task and machine.series in row.series
        ]
        only = f" (only for {_scopes(smaller)})" if smaller else ""
        return (
            f"Google does not recommend {machine.series} for this {workload.task}{only}: "
            f"for {best.scope} it recommends {', '.join(best.series)}{_cited([best], catalog)}."
        )
    return f"Google publishes no guidance for {workload.task}."


def _applies(row: Guidance, workload: Workload) -> bool:
    if row.name not in SCOPES or workload.model is None:
        return True
    low, high = SCOPES[row.name]
    return low <= workload.model.parameters_count < high


def _scopes(rows: Sequence[Guidance]) -> str:
    return " and for ".join(dict.fromkeys(row.scope for row in rows))


def _cited(rows: Sequence[Guidance], catalog: Catalog) -> str:
    sources = [catalog.source(name) for name in dict.fromkeys(row.source[0] for row in rows)]
    return " (" + "; ".join(f"{source.title}, {source.date}" for source in sources) + ")"
