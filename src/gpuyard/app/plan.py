"""`gpuyard plan`: the clusters that can run a workload, ranked."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from gpuyard.app.inference import plan_service
from gpuyard.app.workspace import Workspace
from gpuyard.catalog.load import Catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.plan.graphics import plan_graphics
from gpuyard.plan.hpc import plan_hpc
from gpuyard.plan.inference.refine import SimulationCache
from gpuyard.plan.layout_advice import what_would_be_better
from gpuyard.plan.mixed import plan_mixed
from gpuyard.plan.option import Plan
from gpuyard.plan.relaxation import confident_change, smallest_change
from gpuyard.plan.scaling import ScalingPoint, scaling
from gpuyard.plan.shortlist import Networks
from gpuyard.plan.training import plan_training
from gpuyard.workload.workload import Workload


def plan_workload(
    workspace: Workspace, *, profile: str = "", networks: Networks | None = None
) -> Plan | Infeasible:
    """Plan a workload; `profile` names the training software, `networks` simulated ones."""
    workload = workspace.workload
    if workload.where.provider == "local":
        fix = "run it with `gpuyard up FILE`, or name another provider, such as google"
        raise InputError.one("where.provider", "a local workload is run, not planned", fix)
    catalog = _with_switch_technology(workload, workspace.catalog)
    simulations: SimulationCache = {}  # a fix plans the same model several times

    def planner(wanted: Workload) -> Plan | Infeasible:
        if wanted.task in ("pretraining", "finetuning"):
            return plan_training(wanted, catalog, profile, networks)
        if wanted.task == "graphics":
            return plan_graphics(wanted, catalog)
        if wanted.task == "hpc":
            return plan_hpc(wanted, catalog)
        return plan_service(wanted, catalog, workspace.folder, simulations)

    plan = planner(workload)
    if isinstance(plan, Infeasible):
        mixed = plan_mixed(workload, plan, planner)
        return smallest_change(workload, plan, planner) if mixed is plan else mixed
    change = confident_change(workload, plan, planner)
    if change:
        plan = replace(plan, notes=(change, *plan.notes))
    if workload.pinned is not None:
        free = planner(replace(workload, pinned=None))
        better = what_would_be_better(plan, free) if isinstance(free, Plan) else ""
        return replace(plan, notes=(better, *plan.notes)) if better else plan
    return plan


def sweep_counts(workspace: Workspace, plan: Plan) -> tuple[str, tuple[ScalingPoint, ...]]:
    """Return the first machine type and its scaling, without limits on time and cost."""
    machine = plan.options[0].cluster.machine
    if plan.options[0].prediction("time_s") is None:
        fix = "change requirements.requests or graphics.sessions and plan again"
        raise InputError.one("--sweep", "a service is sized by its load", fix)
    workload = workspace.workload
    unlimited = replace(
        workload,
        requirements=replace(workload.requirements, deadline_s=None, budget_usd=None),
        where=replace(workload.where, machines=(machine,), cluster=()),
    )
    free = plan_workload(replace(workspace, workload=unlimited))
    return machine, scaling(free if isinstance(free, Plan) else plan, machine)


# Where prefill and decode pools are deployed with their router.
POOL_PLATFORMS = ("gke", "kubernetes")


def first_deployable_option(plan: Plan, platform: str | None) -> int | None:
    """Number of the first option that a platform can deploy; None: any platform."""
    numbers = enumerate(plan.options, start=1)
    if platform is None or platform in POOL_PLATFORMS:
        return 1 if plan.options else None
    return next(
        (
            number
            for number, option in numbers
            if option.service is None or not option.service.prefill
        ),
        None,
    )


def _with_switch_technology(workload: Workload, catalog: Catalog) -> Catalog:
    """The catalog with on-premises machines on the technology of the workload's switch.

    Their NICs support both InfiniBand and RoCE.
    """
    name = workload.where.switch
    if name is None:
        return catalog
    technology: Literal["infiniband", "roce"] = (
        "infiniband" if catalog.switch(name).technology == "infiniband" else "roce"
    )
    machines = tuple(
        replace(row, network=replace(row.network, technology=technology))
        if row.provider == "onprem" and row.network.technology in ("infiniband", "roce")
        else row
        for row in catalog.machines
    )
    return replace(catalog, machines=machines)
