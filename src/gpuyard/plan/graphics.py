"""Plans for pixels: people at virtual workstations, frames to render, video to transcode."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpuyard.catalog import Catalog, Machine
from gpuyard.errors import Infeasible
from gpuyard.plan.conclude import concluded
from gpuyard.plan.cost import HOUR_S, bills, energy_joules
from gpuyard.plan.eligible import chip_of, ruled_out
from gpuyard.plan.exposure import Resilience
from gpuyard.plan.guidance import guidance_reason
from gpuyard.plan.limits import Miss, Verdict, judged, ladder, most_machines, spread
from gpuyard.plan.option import Bill, Cluster, Option, Part, Plan
from gpuyard.plan.pixels import Fit, Scene, fit
from gpuyard.plan.platforms import suitability
from gpuyard.plan.storage import storage_need, storage_picks
from gpuyard.workload import Graphics, Workload

__all__ = ["plan_graphics"]

UNPROVEN_RATIO = 1.0  # no published runs were compared with ratios of peaks: within a factor of two
NOTES = {
    "rendering": (
        "frame times scale with FP32 rate or memory bandwidth, whichever gives less; no runs were compared with this",
        "frames are independent: an interruption costs the frames of one machine",
    ),
    "virtual-workstation": (
        "a service has no end: time and cost are those of one hour",
        "pictures are sent at NVIDIA's encoding rates for the architecture's fastest board: an upper bound",
        "Compute Engine rents whole GPUs as workstations: sessions of one GPU share a machine",
    ),
    "video": (
        "a service has no end: time and cost are those of one hour",
        "H.264 with preset P5 at NVIDIA's rates for the architecture's fastest board: an upper bound",
    ),
}


def plan_graphics(workload: Workload, catalog: Catalog) -> Plan | Infeasible:
    """The clusters that do the graphics, the cheapest first; Infeasible with what to relax if none does."""
    graphics = workload.graphics
    assert graphics is not None, "the checks of a graphics workload ask for it"
    options: list[Option] = []
    misses: list[Miss] = []
    searched = 0
    for machine in catalog.machines:
        scene = _scene(workload, graphics, machine, catalog)
        found = fit(scene) if isinstance(scene, Scene) else scene
        if isinstance(found, Miss):
            misses.append(found)
        if not isinstance(scene, Scene) or not isinstance(found, Fit):
            continue
        verdicts = {count: _verdict(scene, found, count) for count in _counts(found, scene)}
        searched += len(verdicts)
        misses += [verdict.miss for verdict in verdicts.values() if verdict.miss]
        options += [_option(scene, found, count, verdicts[count]) for count in spread(verdicts)]
    return concluded(
        workload,
        catalog,
        options,
        misses,
        searched_count=searched,
        nothing=_nothing(misses),
        notes=NOTES[graphics.use],
    )


def _nothing(misses: Sequence[Miss]) -> Infeasible:
    """What is said where no number would release a machine: why the first of them cannot."""
    if not misses:
        return Infeasible(binding="where.machines", what="no machine here draws pixels", fix="allow G2, G4 or N1+T4")
    first = misses[0]
    return Infeasible(binding=first.binding, what=f"{first.family}: {first.what}", fix=first.fix)


def _scene(workload: Workload, graphics: Graphics, machine: Machine, catalog: Catalog) -> Scene | Miss | None:
    """The machine with its chip's graphics; a miss where it cannot serve, None where the file leaves it out."""
    chip = chip_of(machine, catalog)
    if not workload.where.allows(machine) or chip is None or chip.kind != "gpu":
        return None
    against = ruled_out(workload, machine, catalog)
    engine = next((row for row in catalog.graphics if row.name == chip.name), None)
    if against is not None:
        binding, _, what = against.partition(": ")
        fix = "relax it, or choose another machine"
        return Miss(family=machine.series, binding=binding, ratio=math.inf, what=what, fix=fix)
    if engine is None:
        what = f"nothing is known of {chip.label}'s graphics"
        fix = f"add [graphics.{chip.name}] to a catalog file of your own"
        return Miss(family=machine.series, binding="catalog.graphics", ratio=math.inf, what=what, fix=fix)
    return Scene(workload=workload, graphics=graphics, machine=machine, chip=chip, engine=engine, catalog=catalog)


def _counts(found: Fit, scene: Scene) -> list[int]:
    """The numbers of machines to try: of a service the fewest that do, of frames up to one a GPU."""
    most = most_machines(scene.workload.where, scene.machine)
    if found.frame_s is None or most < 1:
        return [found.machine_count]
    return ladder(1, min(most, math.ceil((scene.graphics.frames_count or 1) / scene.gpu_count)))


def _verdict(scene: Scene, found: Fit, machine_count: int) -> Verdict:
    """What the cluster costs and takes, against the limits of the file."""
    most = most_machines(scene.workload.where, scene.machine)
    if machine_count > most:
        what = f"{machine_count} machines are needed, {most} are allowed"
        fix = f"allow {machine_count * scene.machine.chip_count:g} GPUs of this kind"
        binding = "where.inventory" if scene.workload.where.inventory else "where.max_chips"
        ratio = machine_count / most if most else math.inf
        miss = Miss(family=scene.machine.series, binding=binding, ratio=ratio, what=what, fix=fix)
        return Verdict(bills=(), expected_s=0.0, miss=miss)
    useful_s = _useful_s(scene, found, machine_count)
    where, catalog = scene.workload.where, scene.catalog
    offered = bills(
        scene.machine, machine_count, useful_s, _resilience(found), where, catalog,
        licence_usd_per_hour=found.licence_usd_per_hour,
    )  # fmt: skip
    kept = tuple(bill for bill in offered if _bearable(bill, scene))
    return judged(scene.machine, machine_count, useful_s, _resilience(found), scene.workload, catalog, kept)


def _bearable(bill: Bill, scene: Scene) -> bool:
    """False of a workstation that may vanish under its user, unless the file asks for it."""
    vanishing = bill.way == "spot" and scene.graphics.use == "virtual-workstation"
    return not vanishing or "spot" in scene.workload.where.consumption


def _resilience(found: Fit) -> Resilience:
    """A finished frame is a checkpoint that costs nothing; machines do not wait for each other."""
    return Resilience(write_s=0.0, interval_s=found.frame_s, together=False)


def _useful_s(scene: Scene, found: Fit, machine_count: int) -> float | None:
    """Rendering time without an interruption; None of a service."""
    return found.useful_s(scene.graphics.frames_count or 1, machine_count * scene.gpu_count)


def _option(scene: Scene, found: Fit, machine_count: int, verdict: Verdict) -> Option:
    """The cluster as an option."""
    workload, machine, catalog = scene.workload, scene.machine, scene.catalog
    useful_s = _useful_s(scene, found, machine_count)
    step_s = found.frame_s or HOUR_S
    need = storage_need(workload, run_s=useful_s or HOUR_S)
    return Option(
        cluster=Cluster(
            machine=machine.name,
            machine_count=machine_count,
            chip=machine.chip,
            chip_count=machine_count * machine.chip_count,
        ),
        precision="fp32",
        step_s=step_s,
        step_parts=(Part(name="frame" if found.frame_s else "hour of the service", value=step_s),),
        memory_bytes=found.memory_bytes,
        memory_parts=(Part(name="sessions" if found.frame_s is None else "frame", value=found.memory_bytes),),
        memory_capacity_bytes=scene.memory_bytes,
        ideal_s=useful_s or HOUR_S,
        expected_s=verdict.expected_s,
        error_ratio=UNPROVEN_RATIO,
        bills=verdict.bills,
        platforms=suitability(workload, machine, machine_count, catalog),
        network=machine.network.technology,
        steps_count=(useful_s or HOUR_S) / step_s,
        energy_joules=energy_joules(machine, machine_count, verdict.expected_s, catalog),
        storage_need=need,
        storage=storage_picks(need, machine, catalog, workload.task),
        reasons=tuple(_reasons(scene, found)),
    )


def _reasons(scene: Scene, found: Fit) -> Iterator[str]:
    """Why this many machines, and what to know about the chip."""
    yield found.reason
    yield guidance_reason(scene.workload, scene.machine, scene.catalog)
    if scene.engine.note:
        yield scene.engine.note
    licensed = scene.graphics.use == "virtual-workstation" and scene.machine.provider == "google"
    if licensed and scene.engine.vws_usd_per_hour is None:
        yield "The licence for virtual workstations is not in the cost."
