"""Plan HPC codes: machines with and without accelerators in one table."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import Infeasible
from gpuyard.plan.chances import with_chances
from gpuyard.plan.cost import bills, energy_joules
from gpuyard.plan.eligible import exclusion_of
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
from gpuyard.plan.option import BreakdownTerm, Cluster, Option, Plan
from gpuyard.plan.platforms import suitability
from gpuyard.plan.ranking import SearchOutcome, conclude_plan
from gpuyard.plan.speedup import HpcMachine, RunTime, has_rdma, hpc_machine, run_times
from gpuyard.plan.spot_advice import by_preference
from gpuyard.plan.storage import storage_need, storage_picks
from gpuyard.units import BYTES, show
from gpuyard.workload.sections import Hpc
from gpuyard.workload.workload import Workload

UNVALIDATED_RATIO = 1.0  # not validated against published runs: a factor of two
MAX_RUN_MACHINES = 4096  # per run, if the file sets no limit
NOTES = (
    "times scale with the catalog's rates for the bound; not validated against measured runs",
    "the offloadable part stays on the CPU where accelerators are slower",
)
INDEPENDENT = "mpi is false: machines are assumed to work independently"
UNKNOWN_DATA = "memory is missing: MPI messages between machines are not counted"
OWN_CORES = "measured_on is missing: a core-hour is one of each machine's own cores"


def plan_hpc(workload: Workload, catalog: Catalog) -> Plan | Infeasible:
    """Return the clusters that run the code within the limits, cheapest first, or Infeasible."""
    hpc = workload.hpc
    assert hpc is not None, "the workload checks require the hpc section"
    options: list[Option] = []
    misses: list[LimitViolation] = []
    searched = 0
    for machine in catalog.machines:
        if not workload.where.allows(machine) or machine.chip_count % 1:
            continue
        rates = _rates(workload, hpc, machine, catalog)
        if isinstance(rates, LimitViolation):
            misses.append(rates)
            continue
        times = _times(workload, hpc, rates)
        if isinstance(times, LimitViolation):
            misses.append(times)
            continue
        indices = {int(count): at for at, count in enumerate(times.machine_count)}
        checks = {
            count: _check(workload, rates, times, at, catalog) for count, at in indices.items()
        }
        searched += len(checks)
        misses += [check.miss for check in checks.values() if check.miss]
        for count in machine_counts_to_show(checks):
            options.append(
                _option(workload, hpc, rates, times, indices[count], checks[count], catalog)
            )
    outcome = SearchOutcome(
        options=options,
        violations=misses,
        searched_count=searched,
        otherwise=Infeasible(
            binding="where.machines",
            what="no allowed machine can run it",
            fix="allow more machines",
        ),
        notes=tuple(_notes(hpc)),
    )
    return conclude_plan(workload, catalog, outcome)


def _notes(hpc: Hpc) -> Iterator[str]:
    yield from NOTES
    if not hpc.mpi:
        yield INDEPENDENT
    elif hpc.memory_bytes is None:
        yield UNKNOWN_DATA
    if hpc.cpu_hours_count is not None and hpc.measured_on is None:
        yield OWN_CORES
    elif hpc.cpu_hours_count is not None:
        yield f"cpu_hours are of physical cores of {hpc.measured_on}, not of vCPUs"


def _rates(
    workload: Workload, hpc: Hpc, machine: Machine, catalog: Catalog
) -> HpcMachine | LimitViolation:
    exclusion = exclusion_of(workload, machine, catalog)
    if exclusion is not None:
        return exclusion.violation(machine.series)
    rates = hpc_machine(hpc, machine, catalog)
    if isinstance(rates, str):
        fix = "add it to your own catalog file"
        return LimitViolation(
            family=machine.series, binding="catalog", ratio=math.inf, what=rates, fix=fix
        )
    return rates


def _times(workload: Workload, hpc: Hpc, rates: HpcMachine) -> RunTime | LimitViolation:
    """Run times for the numbers of machines that hold the data, up to the fastest number."""
    most = min(max_machines(workload.where, rates.machine), MAX_RUN_MACHINES)
    fewest = max(1, math.ceil((hpc.memory_bytes or 0.0) / rates.memory_bytes))
    if fewest > most:
        capacity = show(most * rates.memory_bytes, BYTES)
        return LimitViolation(
            family=rates.machine.series,
            binding="hpc.memory",
            ratio=fewest / most if most else math.inf,
            what=f"{show(hpc.memory_bytes or 0.0, BYTES)} of data need {fewest} machines; "
            f"{most} are allowed",
            fix=f"reduce memory to {capacity}, or allow {fewest} machines",
        )
    where = workload.where
    tried = machine_counts_allowed(where, rates.machine, machine_counts_to_try(fewest, most))
    counts = np.array([*tried], dtype=np.int64)
    fastest = int(np.argmin(run_times(hpc, rates, counts).total_s))
    return run_times(hpc, rates, counts[: fastest + 1])


def _check(
    workload: Workload, rates: HpcMachine, times: RunTime, at: int, catalog: Catalog
) -> LimitCheck:
    machine = rates.machine
    machine_count = int(times.machine_count[at])
    useful_s = float(times.total_s[at])
    offered = bills(
        machine,
        machine_count,
        useful_s,
        _resilience(workload),
        workload.where,
        catalog,
        host_vcpu_count=machine.vcpu_count,
    )
    together = workload.hpc is not None and workload.hpc.mpi
    # The size of a checkpoint is unknown: an MPI run that is interrupted may start again.
    preferred = by_preference(
        offered, workload.where, machine_count, synchronous=together, checkpoints=not together
    )
    return check_limits(
        machine, machine_count, useful_s, _resilience(workload), workload, catalog, preferred
    )


def _resilience(workload: Workload) -> Resilience:
    return Resilience(together=workload.hpc is not None and workload.hpc.mpi)


def _option(
    workload: Workload,
    hpc: Hpc,
    rates: HpcMachine,
    times: RunTime,
    at: int,
    check: LimitCheck,
    catalog: Catalog,
) -> Option:
    machine = rates.machine
    machine_count = int(times.machine_count[at])
    useful_s = float(times.total_s[at])
    need = storage_need(workload, run_s=useful_s)
    memory_bytes = (hpc.memory_bytes or 0.0) / machine_count
    option = Option(
        cluster=Cluster(
            machine=machine.name,
            machine_count=machine_count,
            chip=machine.chip,
            chip_count=machine_count * machine.chip_count,
        ),
        precision=workload.requirements.precision or ("fp32" if hpc.bound == "fp32" else "fp64"),
        step_s=useful_s,
        step_parts=(
            BreakdownTerm(name="CPU", value=float(times.host_s[at])),
            BreakdownTerm(
                name="accelerators" if rates.offloads else "CPU, offloadable",
                value=float(times.offloaded_s[at]),
            ),
            BreakdownTerm(name="messages", value=float(times.message_s[at])),
        ),
        memory_bytes=memory_bytes,
        memory_parts=(BreakdownTerm(name="working set", value=memory_bytes),),
        memory_capacity_bytes=rates.memory_bytes,
        ideal_s=useful_s,
        expected_s=check.expected_s,
        error_ratio=UNVALIDATED_RATIO,
        bills=check.bills,
        platforms=suitability(workload, machine, machine_count, catalog),
        network=machine.network.technology,
        energy_joules=energy_joules(machine, machine_count, check.expected_s, catalog),
        storage_need=need,
        storage=storage_picks(need, machine, catalog, workload.task),
        reasons=tuple(_reasons(workload, hpc, rates, catalog)),
        measured=not _passes_messages_over_tcp(hpc, machine, machine_count),
    )
    return with_chances(option, workload.requirements)


def _passes_messages_over_tcp(hpc: Hpc, machine: Machine, machine_count: int) -> bool:
    """True if MPI ranks on several machines have no RDMA, whose message times vary most."""
    return hpc.mpi and machine_count > 1 and not has_rdma(machine)


def _reasons(workload: Workload, hpc: Hpc, rates: HpcMachine, catalog: Catalog) -> Iterator[str]:
    total_speedup = 1.0 / ((1.0 - hpc.offload_ratio) + hpc.offload_ratio / rates.speedup_ratio)
    if rates.machine.chip is None:
        yield "CPU-only"
    elif rates.offloads:
        yield (
            f"accelerators are {rates.speedup_ratio:.1f} times as fast as this machine's cores; "
            f"with {hpc.offload_ratio:.0%} offloaded the whole run is {total_speedup:.1f} times "
            "as fast"
        )
    else:
        yield "its accelerators are slower than its cores for this bound and stay idle"
    yield guidance_reason(workload, rates.machine, catalog)
