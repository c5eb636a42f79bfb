"""Several machine types for one work that splits: requests of a service, frames, independent jobs.

Each type takes the largest share of the work that it does within every limit, found by bisection
over plans of that type alone; the most capable types come first, and the last takes what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gpuyard.errors import Infeasible
from gpuyard.plan.option import Option, Plan
from gpuyard.units import RATIO, show
from gpuyard.workload.where import InventoryItem
from gpuyard.workload.workload import Workload

Planner = Callable[[Workload], Plan | Infeasible]
STEPS = 6  # of the bisection: shares within 1.6 %


@dataclass(frozen=True, slots=True, kw_only=True)
class _Capacity:
    """The largest share of the work that the machines of one type do."""

    item: InventoryItem
    share_ratio: float
    option: Option


def plan_mixed(workload: Workload, infeasible: Infeasible, plan: Planner) -> Plan | Infeasible:
    """Return a plan whose options work together, or Infeasible if they cannot."""
    stock = workload.where.inventory
    if len(stock) < 2 or not splits(workload):
        return infeasible
    results = (_capacity(workload, item, plan) for item in stock)
    capacities = sorted(
        (item for item in results if item is not None),
        key=lambda item: -item.share_ratio / item.item.count,
    )
    total = sum(item.share_ratio for item in capacities)
    if total < 1.0:
        return _too_little(workload, total, infeasible)
    options: list[Option] = []
    left = 1.0
    for capacity in capacities:
        if left <= 0.0:
            break
        option = capacity.option
        if capacity.share_ratio > left:
            part = plan(_scaled(_only(workload, capacity.item), left))
            option = part.options[0] if isinstance(part, Plan) else option
        share = min(left, capacity.share_ratio)
        text = f"carries {show(share, RATIO)} of the work, with the other options"
        options.append(replace(option, reasons=(text, *option.reasons)))
        left -= share
    return Plan(
        workload=workload.name,
        task=workload.task,
        options=tuple(options),
        rejected=(),
        searched_count=0,
        notes=("no machine type carries the work alone: the options are used together",),
        combined=True,
    )


def splits(workload: Workload) -> bool:
    """Return True for work that several clusters can share."""
    hpc, graphics, needs = workload.hpc, workload.graphics, workload.requirements
    if workload.task == "inference":
        return needs.requests_per_s is not None
    if needs.deadline_s is None:
        return False
    rendering = graphics is not None and graphics.use == "rendering"
    return rendering or (hpc is not None and not hpc.mpi)


def _capacity(workload: Workload, item: InventoryItem, plan: Planner) -> _Capacity | None:
    alone = _only(workload, item)
    low, high = 0.0, 1.0
    best: Option | None = None
    for _ in range(STEPS):
        share = (low + high) / 2.0
        result = plan(_scaled(alone, share))
        if isinstance(result, Plan) and result.options[0].meets_limits:
            low, best = share, result.options[0]
        else:
            high = share
    return None if best is None else _Capacity(item=item, share_ratio=low, option=best)


def _only(workload: Workload, item: InventoryItem) -> Workload:
    return replace(workload, where=replace(workload.where, inventory=(item,)))


def _scaled(workload: Workload, share: float) -> Workload:
    """The workload with a share of its work."""
    needs, graphics, hpc = workload.requirements, workload.graphics, workload.hpc
    if needs.requests_per_s is not None:
        needs = replace(needs, requests_per_s=needs.requests_per_s * share)
    if graphics is not None and graphics.frames_count is not None:
        graphics = replace(graphics, frames_count=max(1, round(graphics.frames_count * share)))
    if hpc is not None:
        hpc = replace(
            hpc,
            flop_count=_times(hpc.flop_count, share),
            cpu_hours_count=_times(hpc.cpu_hours_count, share),
        )
    return replace(workload, requirements=needs, graphics=graphics, hpc=hpc)


def _times(value: float | None, share: float) -> float | None:
    return None if value is None else value * share


def _too_little(workload: Workload, total: float, infeasible: Infeasible) -> Infeasible:
    if total <= 0.0:
        return infeasible
    rate = workload.requirements.requests_per_s
    fix = "add machines, or extend the deadline"
    if rate is not None:
        fix = f"add machines, or reduce requests to {total * rate:.3g}/s"
    return Infeasible(
        binding="where.inventory",
        what=f"all machines together carry {show(total, RATIO)} of the work within the limits",
        fix=fix,
    )


def machines_text(options: Iterable[Option]) -> str:
    """Machines of several options: `1 × dgx-h100 and 2 × dgx-a100`."""
    return " and ".join(f"{o.cluster.machine_count} × {o.cluster.machine}" for o in options)
