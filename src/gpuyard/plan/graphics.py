"""Plan graphics workloads: virtual workstations, rendering and video transcoding."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import Infeasible
from gpuyard.plan.chances import with_chances
from gpuyard.plan.cost import SERVICE_PERIOD_S, bills, energy_joules
from gpuyard.plan.eligible import exclusion_of
from gpuyard.plan.graphics_sizing import (
    GraphicsCase,
    GraphicsSizing,
    seat_gpu_bytes,
    size_graphics,
)
from gpuyard.plan.guidance import guidance_reason
from gpuyard.plan.interruptions import Resilience
from gpuyard.plan.limits import (
    LimitCheck,
    LimitViolation,
    check_limits,
    machine_counts_allowed,
    machine_counts_to_show,
    machine_counts_to_try,
    max_machines,
)
from gpuyard.plan.option import Bill, BreakdownTerm, Cluster, Option, Plan
from gpuyard.plan.platforms import suitability
from gpuyard.plan.ranking import SearchOutcome, conclude_plan
from gpuyard.plan.spot_advice import PREEMPTIBLE, by_preference
from gpuyard.plan.storage import storage_need, storage_picks
from gpuyard.units import BYTES, show
from gpuyard.workload.eligibility import chip_of
from gpuyard.workload.sections import Graphics
from gpuyard.workload.workload import Workload

LICENCE_EXCLUDED = "the cost excludes the virtual workstation licence"
UNVALIDATED_RATIO = 1.0  # not validated against published runs: a factor of two
NOTES = {
    "rendering": (
        (
            "frame times scale with the slower of FP32 rate and memory bandwidth; "
            "not validated against measured runs"
        ),
        "frames are independent: an interruption costs the frames of one machine",
    ),
    "virtual-workstation": (
        "time and cost are for one hour of the service",
        (
            "displays are streamed at NVIDIA's encoding rates for the architecture's fastest "
            "board: an upper bound"
        ),
        "Compute Engine rents whole GPUs as workstations: sessions of one GPU share a machine",
    ),
    "video": (
        "time and cost are for one hour of the service",
        (
            "H.264 with preset P5 at NVIDIA's rates for the architecture's fastest board: "
            "an upper bound"
        ),
    ),
}


def plan_graphics(workload: Workload, catalog: Catalog) -> Plan | Infeasible:
    """Return the clusters that do the graphics work, cheapest first, or Infeasible."""
    graphics = workload.graphics
    assert graphics is not None, "the workload checks require the graphics section"
    options: list[Option] = []
    misses: list[LimitViolation] = []
    searched = 0
    for machine in catalog.machines:
        case = _case(workload, graphics, machine, catalog)
        sizing = size_graphics(case) if isinstance(case, GraphicsCase) else case
        if isinstance(sizing, LimitViolation):
            misses.append(sizing)
        if not isinstance(case, GraphicsCase) or not isinstance(sizing, GraphicsSizing):
            continue
        checks = {count: _check(case, sizing, count) for count in _counts(sizing, case)}
        searched += len(checks)
        misses += [check.miss for check in checks.values() if check.miss]
        options += [
            _option(case, sizing, count, checks[count]) for count in machine_counts_to_show(checks)
        ]
    outcome = SearchOutcome(
        options=options,
        violations=misses,
        searched_count=searched,
        otherwise=Infeasible(
            binding="where.machines",
            what="no allowed machine supports graphics",
            fix="allow G2, G4 or N1+T4",
        ),
        notes=(*NOTES[graphics.use], *_assumptions(graphics)),
    )
    return conclude_plan(workload, catalog, outcome)


def _assumptions(graphics: Graphics) -> Iterator[str]:
    if graphics.use == "virtual-workstation" and graphics.memory_bytes is None:
        memory = show(seat_gpu_bytes(graphics), BYTES)
        yield f"memory is missing: {memory} of GPU memory per session, as of the usual vGPU profile"


def _case(
    workload: Workload, graphics: Graphics, machine: Machine, catalog: Catalog
) -> GraphicsCase | LimitViolation | None:
    """None for a machine that the file does not allow."""
    chip = chip_of(machine, catalog)
    if not workload.where.allows(machine) or chip is None or chip.kind != "gpu":
        return None
    exclusion = exclusion_of(workload, machine, catalog)
    if exclusion is not None:
        return exclusion.violation(machine.series)
    engine = next((row for row in catalog.graphics if row.name == chip.name), None)
    if engine is None:
        what = f"the graphics capabilities of {chip.label} are unknown"
        fix = f"add [graphics.{chip.name}] to your own catalog file"
        return LimitViolation(
            family=machine.series, binding="catalog.graphics", ratio=math.inf, what=what, fix=fix
        )
    return GraphicsCase(
        workload=workload,
        graphics=graphics,
        machine=machine,
        chip=chip,
        engine=engine,
        catalog=catalog,
    )


def _counts(sizing: GraphicsSizing, case: GraphicsCase) -> list[int]:
    """Numbers of machines to try: the fewest for a service; for rendering up to one per frame."""
    most = max_machines(case.workload.where, case.machine)
    if sizing.frame_s is None or most < 1:
        return [sizing.machine_count]
    tried = machine_counts_to_try(
        1, min(most, math.ceil((case.graphics.frames_count or 1) / case.gpu_count))
    )
    return [*machine_counts_allowed(case.workload.where, case.machine, tried)]


def _check(case: GraphicsCase, sizing: GraphicsSizing, machine_count: int) -> LimitCheck:
    most = max_machines(case.workload.where, case.machine)
    if machine_count > most:
        what = f"{machine_count} machines are needed; {most} are allowed"
        fix = f"allow {machine_count * case.machine.chip_count:g} GPUs of this kind"
        binding = "where.inventory" if case.workload.where.inventory else "where.max_chips"
        ratio = machine_count / most if most else math.inf
        miss = LimitViolation(
            family=case.machine.series, binding=binding, ratio=ratio, what=what, fix=fix
        )
        return LimitCheck(bills=(), expected_s=0.0, miss=miss)
    useful_s = _useful_s(case, sizing, machine_count)
    where, catalog = case.workload.where, case.catalog
    offered = bills(
        case.machine,
        machine_count,
        useful_s,
        _resilience(sizing),
        where,
        catalog,
        host_vcpu_count=sizing.host_vcpu_count,
        licence_usd_per_hour=sizing.licence_usd_per_hour,
    )
    acceptable = by_preference(
        [bill for bill in offered if _is_acceptable(bill, case)],
        where,
        machine_count,
        synchronous=False,
    )
    return check_limits(
        case.machine,
        machine_count,
        useful_s,
        _resilience(sizing),
        case.workload,
        catalog,
        acceptable,
    )


def _is_acceptable(bill: Bill, case: GraphicsCase) -> bool:
    """A workstation or a live stream must not be preempted, unless the file asks for spot."""
    preemptible = bill.consumption in PREEMPTIBLE and case.graphics.use != "rendering"
    return not preemptible or bill.consumption in case.workload.where.consumption


def _resilience(sizing: GraphicsSizing) -> Resilience:
    """A finished frame is a free checkpoint; machines do not wait for each other."""
    return Resilience(write_s=0.0, interval_s=sizing.frame_s, together=False)


def _useful_s(case: GraphicsCase, sizing: GraphicsSizing, machine_count: int) -> float | None:
    return sizing.useful_s(case.graphics.frames_count or 1, machine_count * case.gpu_count)


def _option(
    case: GraphicsCase, sizing: GraphicsSizing, machine_count: int, check: LimitCheck
) -> Option:
    workload, machine, catalog = case.workload, case.machine, case.catalog
    useful_s = _useful_s(case, sizing, machine_count)
    step_s = sizing.frame_s or SERVICE_PERIOD_S
    need = storage_need(workload, run_s=useful_s or SERVICE_PERIOD_S)
    option = Option(
        cluster=Cluster(
            machine=machine.name,
            machine_count=machine_count,
            chip=machine.chip,
            chip_count=machine_count * machine.chip_count,
        ),
        precision="fp32",
        step_s=step_s,
        step_parts=(
            BreakdownTerm(name="frame" if sizing.frame_s else "one hour of service", value=step_s),
        ),
        memory_bytes=sizing.memory_bytes,
        memory_parts=(
            BreakdownTerm(
                name="sessions" if sizing.frame_s is None else "frame", value=sizing.memory_bytes
            ),
        ),
        memory_capacity_bytes=case.memory_bytes,
        ideal_s=useful_s or SERVICE_PERIOD_S,
        expected_s=check.expected_s,
        error_ratio=UNVALIDATED_RATIO,
        bills=check.bills,
        platforms=suitability(workload, machine, machine_count, catalog),
        network=machine.network.technology,
        steps_count=(useful_s or SERVICE_PERIOD_S) / step_s,
        energy_joules=energy_joules(machine, machine_count, check.expected_s, catalog),
        storage_need=need,
        storage=storage_picks(need, machine, catalog, workload.task),
        reasons=tuple(_reasons(case, sizing)),
    )
    return with_chances(option, workload.requirements, timed=sizing.frame_s is not None)


def _reasons(case: GraphicsCase, sizing: GraphicsSizing) -> Iterator[str]:
    yield sizing.reason
    yield guidance_reason(case.workload, case.machine, case.catalog)
    if case.engine.note:
        yield case.engine.note
    licensed = case.graphics.use == "virtual-workstation" and case.machine.provider == "google"
    if licensed and case.engine.vws_usd_per_hour is None:
        yield LICENCE_EXCLUDED
