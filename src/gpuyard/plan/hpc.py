"""Plans for computations that are not neural networks: machines with and without accelerators in one table."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gpuyard.catalog import Catalog, Machine
from gpuyard.errors import Infeasible
from gpuyard.plan.conclude import concluded
from gpuyard.plan.cost import bills, energy_joules
from gpuyard.plan.eligible import ruled_out
from gpuyard.plan.exposure import Resilience
from gpuyard.plan.guidance import guidance_reason
from gpuyard.plan.limits import Miss, Verdict, judged, ladder, most_machines, spread
from gpuyard.plan.option import Cluster, Option, Part, Plan
from gpuyard.plan.platforms import suitability
from gpuyard.plan.speedup import Bench, RunTime, bench_of, run_times
from gpuyard.plan.storage import storage_need, storage_picks
from gpuyard.units import BYTES, show
from gpuyard.workload import Hpc, Workload

__all__ = ["plan_hpc"]

UNPROVEN_RATIO = 1.0  # no published runs were compared with ratios of peaks: within a factor of two
LARGEST = 4096  # machines of one run, where the file sets no limit
NOTES = (
    "times scale with the catalog's rates for the bound; no runs were compared with this",
    "the part that may leave the CPU stays there where the accelerators are slower",
)
INDEPENDENT = "mpi is false: machines are taken to work on parts that do not talk to each other"
UNKNOWN_DATA = "the working set is not given: messages between machines are not counted"
OWN_CORES = "measured_on is not given: a core-hour is taken to be one of each machine's own cores"


def plan_hpc(workload: Workload, catalog: Catalog) -> Plan | Infeasible:
    """The clusters that do the computation, the cheapest first; Infeasible with what to relax if none does."""
    hpc = workload.hpc
    assert hpc is not None, "the checks of an HPC workload ask for it"
    options: list[Option] = []
    misses: list[Miss] = []
    searched = 0
    for machine in catalog.machines:
        if not workload.where.allows(machine) or machine.chip_count % 1:
            continue
        found = _bench(workload, hpc, machine, catalog)
        if isinstance(found, Miss):
            misses.append(found)
            continue
        times = _times(workload, hpc, found)
        if isinstance(times, Miss):
            misses.append(times)
            continue
        places = {int(count): at for at, count in enumerate(times.machine_count)}
        verdicts = {count: _verdict(workload, found, times, at, catalog) for count, at in places.items()}
        searched += len(verdicts)
        misses += [verdict.miss for verdict in verdicts.values() if verdict.miss]
        for count in spread(verdicts):
            options.append(_option(workload, hpc, found, times, places[count], verdicts[count], catalog))
    return concluded(
        workload,
        catalog,
        options,
        misses,
        searched_count=searched,
        nothing=Infeasible(binding="where.machines", what="no machine here can run it", fix="allow more machines"),
        notes=tuple(_notes(hpc)),
    )


def _notes(hpc: Hpc) -> Iterator[str]:
    """What the numbers rest on."""
    yield from NOTES
    if not hpc.mpi:
        yield INDEPENDENT
    elif hpc.memory_bytes is None:
        yield UNKNOWN_DATA
    if hpc.cpu_hours_count is not None and hpc.measured_on is None:
        yield OWN_CORES


def _bench(workload: Workload, hpc: Hpc, machine: Machine, catalog: Catalog) -> Bench | Miss:
    """The machine against the work, or what rules it out."""
    against = ruled_out(workload, machine, catalog)
    if against is not None:
        binding, _, what = against.partition(": ")
        fix = "relax it, or choose another machine"
        return Miss(family=machine.series, binding=binding, ratio=math.inf, what=what, fix=fix)
    found = bench_of(hpc, machine, catalog)
    if isinstance(found, str):
        fix = "add it to a catalog file of your own"
        return Miss(family=machine.series, binding="catalog", ratio=math.inf, what=found, fix=fix)
    return found


def _times(workload: Workload, hpc: Hpc, found: Bench) -> RunTime | Miss:
    """The run's time for numbers of machines that hold the data, up to the one that is fastest."""
    most = min(most_machines(workload.where, found.machine), LARGEST)
    fewest = max(1, math.ceil((hpc.memory_bytes or 0.0) / found.memory_bytes))
    if fewest > most:
        held = show(most * found.memory_bytes, BYTES)
        return Miss(
            family=found.machine.series,
            binding="hpc.memory",
            ratio=fewest / most if most else math.inf,
            what=f"{show(hpc.memory_bytes or 0.0, BYTES)} of data need {fewest} machines, {most} are allowed",
            fix=f"lower memory to {held}, or allow {fewest} machines",
        )
    counts = np.array(ladder(fewest, most), dtype=np.int64)
    fastest = int(np.argmin(run_times(hpc, found, counts).total_s))
    return run_times(hpc, found, counts[: fastest + 1])


def _verdict(workload: Workload, found: Bench, times: RunTime, at: int, catalog: Catalog) -> Verdict:
    """What the cluster costs and takes, against the limits of the file."""
    machine, machine_count = found.machine, int(times.machine_count[at])
    useful_s = float(times.total_s[at])
    offered = bills(
        machine, machine_count, useful_s, _resilience(workload), workload.where, catalog,
        host_vcpu_count=machine.vcpu_count,
    )  # fmt: skip
    return judged(machine, machine_count, useful_s, _resilience(workload), workload, catalog, offered)


def _resilience(workload: Workload) -> Resilience:
    """Machines that talk stop together."""
    return Resilience(together=workload.hpc is not None and workload.hpc.mpi)


def _option(
    workload: Workload, hpc: Hpc, found: Bench, times: RunTime, at: int, verdict: Verdict, catalog: Catalog
) -> Option:
    """The cluster as an option."""
    machine, machine_count = found.machine, int(times.machine_count[at])
    useful_s = float(times.total_s[at])
    need = storage_need(workload, run_s=useful_s)
    memory_bytes = (hpc.memory_bytes or 0.0) / machine_count
    return Option(
        cluster=Cluster(
            machine=machine.name,
            machine_count=machine_count,
            chip=machine.chip,
            chip_count=machine_count * machine.chip_count,
        ),
        precision=workload.requirements.precision or ("fp32" if hpc.bound == "fp32" else "fp64"),
        step_s=useful_s,
        step_parts=(
            Part(name="CPU", value=float(times.host_s[at])),
            Part(name="accelerators" if found.offloads else "CPU, could leave it", value=float(times.offloaded_s[at])),
            Part(name="messages", value=float(times.message_s[at])),
        ),
        memory_bytes=memory_bytes,
        memory_parts=(Part(name="working set", value=memory_bytes),),
        memory_capacity_bytes=found.memory_bytes,
        ideal_s=useful_s,
        expected_s=verdict.expected_s,
        error_ratio=UNPROVEN_RATIO,
        bills=verdict.bills,
        platforms=suitability(workload, machine, machine_count, catalog),
        network=machine.network.technology,
        energy_joules=energy_joules(machine, machine_count, verdict.expected_s, catalog),
        storage_need=need,
        storage=storage_picks(need, machine, catalog, workload.task),
        reasons=tuple(_reasons(workload, hpc, found, catalog)),
    )


def _reasons(workload: Workload, hpc: Hpc, found: Bench, catalog: Catalog) -> Iterator[str]:
    """What the accelerators bring, and what the provider says."""
    whole = 1.0 / ((1.0 - hpc.offload_ratio) + hpc.offload_ratio / found.speedup_ratio)
    if found.machine.chip is None:
        yield "CPUs alone"
    elif found.offloads:
        yield (
            f"accelerators are {found.speedup_ratio:.1f} times as fast as this machine's cores; with "
            f"{hpc.offload_ratio:.0%} of the work on them the whole is {whole:.1f} times as fast"
        )
    else:
        yield "its accelerators are slower than its cores for this bound: they stay idle"
    yield guidance_reason(workload, found.machine, catalog)
