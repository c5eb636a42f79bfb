"""Compare the measured training of a run, also of an own program, with the plan of its machines."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.app.plan import plan_workload
from gpuyard.app.runs import show_run
from gpuyard.app.stages import read_stages
from gpuyard.app.workspace import open_workspace
from gpuyard.errors import Infeasible, InputError, choices_text
from gpuyard.home import Home
from gpuyard.jobs.records import Series
from gpuyard.perf.local.comparison import PredictedVsMeasured
from gpuyard.plan.option import Option
from gpuyard.workload.where import InventoryItem
from gpuyard.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanComparison:
    """What the plan predicts for the machines of a run, and what its training measured."""

    run: str
    option: Option
    rows: tuple[PredictedVsMeasured, ...]


def compare_with_plan(
    home: Home, run_id: str, *, machine: str = "", layers: tuple[Path, ...] = ()
) -> PlanComparison | Infeasible:
    """Plan the workload of a run on the machines that it ran on, and compare.

    `machine` names their type where the workload file leaves a choice.
    """
    detail = show_run(home, run_id)
    run = detail.run
    file = Path(run.folder) / "workload.yaml"
    measured = {row.name: row for row in detail.series if row.stage == "train"}
    step_s = _median(measured.get("step_s"))
    if step_s is None:
        what = "its training reported no step_s"
        fix = 'print a line {"step": N, "step_s": SECONDS} per step'
        raise InputError.one(f"run {run.id}", what, fix)
    workspace = open_workspace(file, layers, home)
    nodes = read_stages(file).run.nodes
    workload = _on_exactly(workspace.workload, machine, nodes)
    plan = plan_workload(replace(workspace, workload=workload))
    if isinstance(plan, Infeasible):
        return plan
    option = plan.options[0]
    rows = [
        PredictedVsMeasured(
            name="step time",
            unit="s",
            predicted=option.step_s,
            measured=step_s,
            stated_ratio=option.error_ratio,
        )
    ]
    tokens = _median(measured.get("tokens_per_s"))
    if tokens is not None and option.tokens_per_s is not None:
        rows.append(
            PredictedVsMeasured(
                name="tokens per second",
                unit="/s",
                predicted=option.tokens_per_s,
                measured=tokens,
                stated_ratio=option.error_ratio,
            )
        )
    memory = measured.get("memory_bytes")
    peaks = [point.value for point in memory.points if point.value] if memory else []
    if peaks:
        rows.append(
            PredictedVsMeasured(
                name="memory", unit="B", predicted=option.memory_bytes, measured=max(peaks)
            )
        )
    return PlanComparison(run=run.id, option=option, rows=tuple(rows))


def _on_exactly(workload: Workload, machine: str, nodes: int) -> Workload:
    """Return the workload on N machines of one type, without a deadline and a budget."""
    where = workload.where
    names = [item.name for item in (*where.cluster, *where.inventory)] or list(where.machines)
    chosen = machine or (names[0] if len(names) == 1 else "")
    if not chosen:
        choices = f"one of {choices_text(names)}" if names else "one of `gpuyard catalog machines`"
        what = "the workload file does not say which machine the run used"
        raise InputError.one("--machine", what, f"name {choices}")
    cluster = (InventoryItem(name=chosen, count=nodes),)
    requirements = replace(workload.requirements, deadline_s=None, budget_usd=None)
    return replace(
        workload,
        where=replace(where, machines=(), inventory=where.inventory, cluster=cluster),
        requirements=requirements,
    )


def _median(series: Series | None) -> float | None:
    """The median without the first value, which includes start-up."""
    values = [point.value for point in series.points if point.value] if series else []
    return statistics.median(values[1:] or values) if values else None
