"""Stages of `gpuyard up` for planned machines: check, plan, fabric, verify, simulate, provision."""

from __future__ import annotations

import getpass
import time

from gpuyard.app.check import check_workload
from gpuyard.app.fabric import (
    demand_of_option,
    design_fabric,
    rows_of_fabric,
    verify_cabling,
)
from gpuyard.app.plan import first_deployable_option, plan_workload
from gpuyard.app.provision import (
    blueprint_of_option,
    evidence_of,
    provision_first_suitable,
    write_deployment,
)
from gpuyard.app.up_context import UpContext, UpStage
from gpuyard.app.up_report import StageOutcome
from gpuyard.blueprint.blueprint import Evidence
from gpuyard.document.encode import plain
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.provider import ProviderFabric
from gpuyard.fabric.verify.finding import Verification
from gpuyard.plan.option import Option, Plan
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.simulate.comparison import StepRun
from gpuyard.units import DURATION, HOUR_S, MONEY, show

SAME = 0.0005  # of a step: what rounds to +0.0 %


def _stopped(name: str, reason: Infeasible) -> StageOutcome:
    return StageOutcome(name=name, state="stopped", what=str(reason))


def _skipped(name: str, why: str) -> StageOutcome:
    return StageOutcome(name=name, state="skipped", what=why)


def _check(context: UpContext) -> StageOutcome:
    count = len(check_workload(context.workspace).candidates)
    if not count:
        what = "no machine type may run it; see `gpuyard check`"
        return StageOutcome(name="check", state="stopped", what=what)
    types = f"{count} machine type{'' if count == 1 else 's'}"
    return StageOutcome(name="check", state="done", what=f"valid; {types} may run it")


def _plan(context: UpContext) -> StageOutcome:
    plan = plan_workload(context.workspace)
    if isinstance(plan, Infeasible):
        return _stopped("plan", plan)
    context.values.save("plan.json", plan)
    number, best = _chosen(context, plan)
    endless = (
        context.workload.task in ("inference", "graphics") and best.expected_s == HOUR_S
    )  # plans of services cover one hour
    per = " per hour" if endless else ""
    cost = f", {show(best.usd, MONEY)}{per}" if best.usd is not None else ""
    time_text = "" if endless else f", {show(best.expected_s, DURATION)}"
    cluster = f"{best.cluster.machine_count} × {best.cluster.machine}"
    what = f"{cluster}{time_text}{cost}; {len(plan.options)} options"
    if number != 1:
        what += "; option 1 uses disaggregated prefill, which this platform cannot deploy"
    return StageOutcome(name="plan", state="done", what=what, files=("plan.json",))


def _chosen(context: UpContext, plan: Plan) -> tuple[int, Option]:
    """The number of the option that later stages use, and the option."""
    number = first_deployable_option(plan, context.workload.where.platform) or 1
    return number, plan.options[number - 1]


def _saved_plan(context: UpContext) -> Plan:
    plan = context.values.load("plan.json", Plan)
    assert plan is not None, "the plan stage comes first"
    return plan


def _fabric(context: UpContext) -> StageOutcome:
    catalog = context.workspace.catalog
    _, option = _chosen(context, _saved_plan(context))
    machine = catalog.machine(option.cluster.machine)
    if option.cluster.machine_count < 2:
        return _skipped("fabric", "one machine needs no fabric")
    if not machine.is_accelerated:
        return _skipped("fabric", "machines without accelerators need no GPU fabric")
    if machine.provider != "onprem":  # also where the provider does not publish its fabric
        return _skipped("fabric", f"the fabric of {machine.name} is provider-managed")
    demand = demand_of_option(option, catalog, context.workload.where.switch)
    fabric = design_fabric(demand, catalog)
    if isinstance(fabric, Infeasible):
        return _stopped("fabric", fabric)
    assert not isinstance(fabric, ProviderFabric)
    context.values.save("fabric.json", fabric)
    context.values.save("catalog.json", rows_of_fabric(fabric, catalog))
    size = fabric.size
    cables = size.node_leaf_cables + size.leaf_spine_cables
    what = f"{size.leaves} leaves, {size.spines} spines, {cables} cables"
    return StageOutcome(name="fabric", state="done", what=what, files=("fabric.json",))


def _verify(context: UpContext) -> StageOutcome:
    fabric = context.values.load("fabric.json", Fabric)
    if fabric is None:
        return _skipped("verify", "no designed fabric to verify")
    verification = verify_cabling(fabric, context.workspace.catalog)
    context.values.save("findings.json", verification)
    if verification.has_errors:
        return StageOutcome(name="verify", state="stopped", what=str(verification.errors[0]))
    passed = sum(check.verdict == "passed" for check in verification.checks)
    checks = f"{passed} of {len(verification.checks)} checks passed"
    what = f"{checks}, {len(verification.warnings)} warnings"
    return StageOutcome(name="verify", state="done", what=what, files=("findings.json",))


def _simulate(context: UpContext) -> StageOutcome:
    from gpuyard.app.step import simulate_training_step  # compiled code, loaded when it is needed

    task = context.workload.task
    if task not in ("pretraining", "finetuning"):
        served = "no training step; the plan has simulated the service"
        return _skipped("simulate", served if task == "inference" else "no training step")
    _, option = _chosen(context, _saved_plan(context))
    fabric = context.values.load("fabric.json", Fabric)
    try:
        step = simulate_training_step(context.workspace, option, fabric)
    except InputError as error:
        return _skipped("simulate", error.problems[0].what)
    context.values.save("simulation.json", step)
    change = step.simulated_step_s / step.closed_step_s - 1
    seconds = show(step.simulated_step_s, DURATION)
    against = "as planned" if abs(change) < SAME else f"{change:+.1%} against the plan"
    what = f"step {seconds} on {step.network}, {against}"
    files = ("simulation.json", *_heat(context, fabric, step))
    return StageOutcome(name="simulate", state="done", what=what, files=files)


def _heat(context: UpContext, fabric: Fabric | None, step: StepRun) -> tuple[str, ...]:
    """Save the link load under the step's heaviest collective, where there is a fabric to draw."""
    from gpuyard.simulate.sites.fabric_heat import fabric_heat

    heat = fabric_heat(fabric, step, context.workspace.catalog) if fabric is not None else None
    if heat is None:
        return ()
    context.values.save("collective.json", heat)
    return ("collective.json",)


def _provision(context: UpContext) -> StageOutcome:
    plan = _saved_plan(context)
    number, option = _chosen(context, plan)
    named = context.workload.where.platform
    names = [named] if named else [row.platform for row in option.platforms if row.suits]
    blueprint = blueprint_of_option(
        context.workspace,
        plan,
        number,
        fabric=context.values.load("fabric.json", Fabric),
        evidence=_evidence(context),
    )
    settings = DeploymentSettings(owner=getpass.getuser(), rendered_s=float(int(time.time())))
    deployment = provision_first_suitable(blueprint, names, settings, context.workspace.catalog)
    if deployment is None:
        why = "no platform suits this option; see `gpuyard plan --explain 1`"
        return _skipped("provision", why)
    write_deployment(context.file("deploy"), deployment.files)
    maximum = deployment.cost_bound.max_usd
    cost = f"; applying it can cost up to {show(maximum, MONEY)}" if maximum is not None else ""
    what = f"{len(deployment.files)} files for {deployment.platform}, linted{cost}"
    return StageOutcome(name="provision", state="done", what=what, files=("deploy",))


def _evidence(context: UpContext) -> tuple[Evidence, ...]:
    saved = (
        ("findings", context.values.load("findings.json", Verification)),
        ("simulation", context.values.load("simulation.json", StepRun)),
    )
    rows: list[Evidence] = []
    for name, value in saved:
        if value is not None:
            tree = plain(value)
            assert isinstance(tree, dict)
            rows += evidence_of(name, tree)
    return tuple(rows)


CLOUD: tuple[UpStage, ...] = (
    UpStage(name="check", does="validate the workload and find eligible machines", run=_check),
    UpStage(
        name="plan",
        does="choose machines, count, parallelism layout and platform",
        run=_plan,
        makes=("plan.json",),
    ),
    UpStage(
        name="fabric",
        does="design the backend fabric",
        run=_fabric,
        makes=("fabric.json", "catalog.json"),
    ),
    UpStage(name="verify", does="verify the fabric", run=_verify, makes=("findings.json",)),
    UpStage(
        name="simulate",
        does="simulate a training step on the fabric",
        run=_simulate,
        makes=("simulation.json", "collective.json"),
    ),
    UpStage(
        name="provision",
        does="freeze the blueprint and render deployment files; nothing is spent",
        run=_provision,
    ),
)
