"""`gpuyard simulate step`: the communication of one training step of a planned option, over its fabric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from gpuyard.app.fabric import read_fabric
from gpuyard.app.plan import plan_workload
from gpuyard.app.planned_networks import model_of, planned_site
from gpuyard.app.shapes import Site
from gpuyard.app.sites import site_of_fabric
from gpuyard.catalog import Catalog, load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf import ClosedForm, Group, Layout, NetworkModel, StepTime, step_time
from gpuyard.plan import Option
from gpuyard.plan.evaluate import Case
from gpuyard.plan.training import option_case
from gpuyard.simulate.collectives import bus_bytes_per_s
from gpuyard.simulate.comparison import PhaseTimes, StepPart, StepRun
from gpuyard.simulate.step import Slow, StepPhase, simulate_step, step_phases, step_work
from gpuyard.workload import own_catalogs, read_workload

__all__ = ["StepAsked", "simulate_planned_step"]

COMPUTE = (
    "products_s", "attention_s", "elementwise_s", "cast_s", "recompute_s", "launch_s", "head_s", "optimizer_s",
)  # fmt: skip
LEAST_S = 1e-9  # less is rounding
EXPOSED = ("tensor_parallel_s", "context_parallel_s", "expert_parallel_s", "pipeline_send_s", "data_parallel_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAsked:
    """Which option, over which network, with which stragglers."""

    option: int = 1
    fabric: Path | None = None  # None: designed for the option
    balancing: str | None = None
    profile: str = ""
    slow: tuple[Slow, ...] = ()


def simulate_planned_step(path: Path, asked: StepAsked, layers: Sequence[Path] = ()) -> StepRun | Infeasible:
    """The step of an option of a workload's plan, in closed form and over its network."""
    catalog = load_catalog((*layers, *own_catalogs(path)))
    workload = read_workload(path, catalog)
    if workload.task not in ("pretraining", "finetuning"):
        raise InputError.one("task", f"{workload.task} has no training step", "use a file that trains")
    plan = plan_workload(workload, catalog, asked.profile)
    if isinstance(plan, Infeasible):
        return plan
    if not 1 <= asked.option <= len(plan.options):
        raise InputError.one("--option", f"there is no option {asked.option}", f"use 1 to {len(plan.options)}")
    option = plan.options[asked.option - 1]
    case, layout = option_case(workload, catalog, option, asked.profile)
    site = _site(option, asked, workload.where.switch, catalog)
    model = model_of(site, case.constants, asked.balancing)
    closed = ClosedForm(chip=case.chip, constants=case.constants)
    return _compared(workload.name, option, case, layout, site, (closed, model), model.settings.balance, asked.slow)


def _site(option: Option, asked: StepAsked, switch: str | None, catalog: Catalog) -> Site:
    """The network of the option: a file's, or the one that is designed for it."""
    cluster = option.cluster
    if asked.fabric is not None:
        site = site_of_fabric(read_fabric(asked.fabric), catalog)
        if site.network.host_count < cluster.chip_count:
            raise InputError.one(
                str(asked.fabric), f"{site.network.host_count:,} hosts, the option has {cluster.chip_count:g} chips",
                "design a larger one, or choose another option",
            )  # fmt: skip
        return site
    found = planned_site(catalog.machine(cluster.machine), cluster.machine_count, switch, catalog)
    if found is None:
        raise InputError.one(
            f"option {asked.option}", f"no network of {cluster.machine_count} × {cluster.machine} can be simulated",
            "choose an option with several GPU machines whose network the catalog knows",
        )  # fmt: skip
    return found


def _compared(
    name: str, option: Option, case: Case, layout: Layout, site: Site, models: tuple[NetworkModel, NetworkModel],
    balancing: str, slow: tuple[Slow, ...],
) -> StepRun:  # fmt: skip
    """The step by both models, and its timeline by the second."""
    steps = [step_time(case.arch, layout, case.chip, case.soft, case.constants, model) for model in models]
    work = step_work(case.arch, layout, case.chip, case.soft, case.constants, models[1])
    timeline = simulate_step(work, slow)
    phases = tuple(_phase(phase, layout, models) for phase in step_phases(case.arch, layout, case.soft))
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
        bubble_s=float(steps[1].bubble_s),
        parts=_parts(steps[0], steps[1]),
        phases=phases,
        timeline=timeline,
        notes=site.notes,
    )


def _sum(step: StepTime, names: tuple[str, ...]) -> float:
    """Some terms of a step."""
    return sum(float(getattr(step, name)) for name in names)


def _parts(closed: StepTime, simulated: StepTime) -> tuple[StepPart, ...]:
    """The terms of the step that are not nothing."""
    pairs = (
        (item.name, float(getattr(closed, item.name)), float(getattr(simulated, item.name))) for item in fields(closed)
    )
    return tuple(
        StepPart(name=name.removesuffix("_s").replace("_", " "), closed_s=one, simulated_s=other)
        for name, one, other in pairs
        if max(one, other) > LEAST_S
    )


def _phase(phase: StepPhase, layout: Layout, models: tuple[NetworkModel, NetworkModel]) -> PhaseTimes:
    """A collective by both models; ranks lie as the step-time model lays them."""
    strides = {
        "tp": 1.0,
        "cp": float(layout.tp),
        "dp": float(layout.tp),
        "ep": float(layout.etp),
        "expert-dp": float(layout.ep * layout.etp),
        "pp": float(layout.chips / layout.pp),
    }
    group = Group(stride=np.asarray(strides[phase.axis]), innermost=phase.axis == "tp")
    size, ranks = np.asarray(phase.size_bytes), np.asarray(float(phase.ranks))
    closed_s, simulated_s = (float(model.time_s(phase.collective, size, ranks, group)) for model in models)
    return PhaseTimes(
        label=phase.label,
        collective=phase.collective,
        axis=phase.axis,
        ranks=phase.ranks,
        size_bytes=phase.size_bytes,
        times=phase.times,
        beside=phase.beside,
        closed_s=closed_s,
        simulated_s=simulated_s,
        bus_bytes_per_s=bus_bytes_per_s(phase.collective, phase.size_bytes, phase.ranks, simulated_s),
    )


def _words(layout: Layout) -> str:
    """The layout as engineers write it."""
    degrees = (("TP", layout.tp), ("PP", layout.pp), ("CP", layout.cp), ("EP", layout.ep), ("DP", layout.dp))
    return " ".join(f"{name}{float(value):g}" for name, value in degrees if float(value) > 1) or "one chip"
