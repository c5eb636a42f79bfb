"""A rendered deployment as text."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.diff import Change
from gpuyard.provision.cost_bound import CostBound
from gpuyard.provision.platform import Artefacts
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, show


def unbounded_text(cost_bound: CostBound) -> str:
    """The warning that a deployment has no maximum cost; empty if it has one."""
    if not cost_bound.unbounded:
        return ""
    rate = cost_bound.usd_per_hour
    cost = f"{show(rate, PRICE_PER_HOUR)} and " if rate is not None else ""
    return f"{cost}no upper bound of the cost: nothing terminates {cost_bound.unbounded}"


def provisioned_text(
    blueprint: Blueprint,
    artefacts: Artefacts,
    cost_bound: CostBound,
    folder: str,
    changes: tuple[Change, ...] = (),
) -> str:
    """The option, its maximum cost, changes since the last rendering, and next steps."""
    consumption = f" by {blueprint.consumption}" if blueprint.consumption else ""
    lines = [
        (
            f"{blueprint.name}: {blueprint.machine_count:,} × {blueprint.machine.name}{consumption}"
            f" on {artefacts.platform}"
        )
    ]
    if (
        cost_bound.usd_per_hour is not None
        and cost_bound.expected_usd is not None
        and cost_bound.max_usd is not None
    ):
        lines.append(
            f"  {show(cost_bound.usd_per_hour, PRICE_PER_HOUR)},"
            f" {show(cost_bound.expected_usd, MONEY)} expected, {show(cost_bound.max_usd, MONEY)}"
            f" at most: terminated after {show(cost_bound.ttl_s, DURATION)}"
        )
        if artefacts.without_ttl:
            lines[-1] = lines[-1].replace("terminated", f"if you delete {artefacts.without_ttl}")
    elif blueprint.consumption and not cost_bound.unbounded:
        lines.append("  no price is in the catalog")
    lines += [f"  changed: {change}" for change in changes]
    lines += [f"  note: {note}" for note in artefacts.notes]
    count = len(artefacts.files)
    lines.append(
        f"wrote {count} file{'s' * (count > 1)} and README.md with the commands to {folder}"
    )
    return "\n".join(lines)
