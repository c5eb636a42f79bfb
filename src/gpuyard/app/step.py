"""`gpuyard simulate step`: one training step of a planned option on its fabric."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gpuyard.app.workspace import Workspace
from gpuyard.catalog.load import Catalog
from gpuyard.errors import InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.perf.collectives import ClosedForm, NetworkModel, RankGroup
from gpuyard.perf.layout import Layout
from gpuyard.perf.training import StepTime, step_time
from gpuyard.plan.evaluate import TrainingCase
from gpuyard.plan.option import Option
from gpuyard.plan.training import option_case
from gpuyard.simulate.collectives.bus import bus_bytes_per_s
from gpuyard.simulate.comparison import PhaseTimes, StepPart, StepRun
from gpuyard.simulate.sites.fabric_network import site_of_fabric
from gpuyard.simulate.sites.named_topologies import NetworkSetup
from gpuyard.simulate.sites.planned_networks import model_of, planned_site
from gpuyard.simulate.step.phases import StepPhase, step_phases
from gpuyard.simulate.step.step_work import step_work
from gpuyard.simulate.step.timeline import Slow, simulate_step

COMPUTE = (
    "matmul_s",
    "attention_s",
    "elementwise_s",
    "cast_s",
    "recompute_s",
    "launch_s",
    "lm_head_s",
    "optimizer_s",
)
LEAST_S = 1e-9  # less is rounding
EXPOSED = (
    "tensor_parallel_s",
    "context_parallel_s",
    "expert_parallel_s",
    "pipeline_send_s",
    "data_parallel_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSimOptions:
    """How a training step is simulated: load balancing, training software, stragglers."""

    balancing: str | None = None  # None: as the fabric was designed
    profile: str = ""
    slow: tuple[Slow, ...] = ()


def simulate_training_step(
    workspace: Workspace,
    option: Option,
    fabric: Fabric | None = None,
    options: StepSimOptions | None = None,
) -> StepRun:
    """Simulate one training step of a planned option; without a fabric one is designed."""
    options = options or StepSimOptions()
    workload, catalog = workspace.workload, workspace.catalog
    case, layout = option_case(workload, catalog, option, options.profile)
    site = _site(option, fabric, workload.where.switch, catalog)
    model = model_of(site, case.constants, options.balancing)
    closed = ClosedForm(chip=case.chip, constants=case.constants)
    return _compared(
        workload.name,
        option,
        case,
        layout,
        site,
        (closed, model),
        model.settings.balance,
        options.slow,
    )


def check_trains(workspace: Workspace) -> None:
    """Raise InputError for a workload that has no training step."""
    task = workspace.workload.task
    if task not in ("pretraining", "finetuning"):
        raise InputError.one(
            "task", f"{task} has no training step", "use a pretraining or finetuning workload"
        )


def _site(
    option: Option, fabric: Fabric | None, switch: str | None, catalog: Catalog
) -> NetworkSetup:
    cluster = option.cluster
    if fabric is not None:
        site = site_of_fabric(fabric, catalog)
        if site.network.host_count < cluster.chip_count:
            raise InputError.one(
                "fabric",
                f"has {site.network.host_count:,} hosts, the option {cluster.chip_count:g} chips",
                "design a larger fabric, or choose another option",
            )
        return site
    planned = planned_site(catalog.machine(cluster.machine), cluster.machine_count, switch, catalog)
    if planned is None:
        raise InputError.one(
            "option",
            f"no network of {cluster.machine_count} × {cluster.machine} can be simulated",
            "choose an option with several GPU machines whose network the catalog knows",
        )
    return planned


def _compared(
    name: str,
    option: Option,
    case: TrainingCase,
    layout: Layout,
    site: NetworkSetup,
    models: tuple[NetworkModel, NetworkModel],
    balancing: str,
    slow: tuple[Slow, ...],
) -> StepRun:
    steps = [
        step_time(case.arch, layout, case.chip, case.soft, case.constants, model)
        for model in models
    ]
    work = step_work(case.arch, layout, case.chip, case.soft, case.constants, models[1])
    timeline = simulate_step(work, slow)
    phases = tuple(
        _phase(phase, layout, models) for phase in step_phases(case.arch, layout, case.soft)
    )
    cluster = option.cluster
    return StepRun(
        workload=name,
        machine=cluster.machine,
        machine_count=cluster.machine_count,
        chip_count=int(cluster.chip_count),
        precision=option.precision,
        layout=_words(layout),
        network=site.label,
        balancing=balancing,
        closed_step_s=float(steps[0].total_s),
        simulated_step_s=float(steps[1].total_s),
        timeline_step_s=timeline.step_s,
        compute_s=_sum(steps[1], COMPUTE),
        communication_s=sum(phase.simulated_s * phase.times for phase in phases),
        exposed_s=_sum(steps[1], EXPOSED),
        closed_exposed_s=_sum(steps[0], EXPOSED),
        bubble_s=float(steps[1].pipeline_bubble_s),
        parts=_parts(steps[0], steps[1]),
        phases=phases,
        timeline=timeline,
        notes=site.notes,
    )


def _sum(step: StepTime, names: tuple[str, ...]) -> float:
    return sum(float(getattr(step, name)) for name in names)


def _parts(closed: StepTime, simulated: StepTime) -> tuple[StepPart, ...]:
    pairs = (
        (item.name, float(getattr(closed, item.name)), float(getattr(simulated, item.name)))
        for item in fields(closed)
    )
    return tuple(
        StepPart(name=name.removesuffix("_s").replace("_", " "), closed_s=one, simulated_s=other)
        for name, one, other in pairs
        if max(one, other) > LEAST_S
    )


def _phase(
    phase: StepPhase, layout: Layout, models: tuple[NetworkModel, NetworkModel]
) -> PhaseTimes:
    """A collective by both models, with ranks placed as the step-time model places them."""
    strides = {
        "tp": 1.0,
        "cp": float(layout.tp),
        "dp": float(layout.tp),
        "ep": float(layout.expert_tensor_parallel),
        "expert-dp": float(layout.ep * layout.expert_tensor_parallel),
        "pp": float(layout.chips / layout.pp),
    }
    group = RankGroup(stride=np.asarray(strides[phase.axis]), innermost=phase.axis == "tp")
    size, ranks = np.asarray(phase.size_bytes), np.asarray(float(phase.ranks))
    closed_s, simulated_s = (
        float(model.time_s(phase.collective, size, ranks, group)) for model in models
    )
    return PhaseTimes(
        label=phase.label,
        collective=phase.collective,
        axis=phase.axis,
        ranks=phase.ranks,
        size_bytes=phase.size_bytes,
        times=phase.times,
        overlaps_with=phase.overlaps_with,
        closed_s=closed_s,
        simulated_s=simulated_s,
        bus_bytes_per_s=bus_bytes_per_s(
            phase.collective, phase.size_bytes, phase.ranks, simulated_s
        ),
    )


def _words(layout: Layout) -> str:
    degrees = (
        ("TP", layout.tp),
        ("PP", layout.pp),
        ("CP", layout.cp),
        ("EP", layout.ep),
        ("DP", layout.dp),
    )
    return (
        " ".join(f"{name}{float(value):g}" for name, value in degrees if float(value) > 1)
        or "one chip"
    )
