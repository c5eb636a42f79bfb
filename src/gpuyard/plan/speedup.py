"""How long a computation takes on CPUs and accelerators: Amdahl's law over the rates of the catalog, and its messages.

The work is counted in seconds of one core of a reference processor. What leaves the CPU runs at the accelerators' rate
for the bound (FP64, FP32 or memory bandwidth), the rest on the host's cores; both at the same share of their peaks as
the reference (Amdahl 1967). Machines share the work out evenly, and with MPI exchange the faces of their part of the
data once each time that they have gone through it (Bulk-synchronous halo exchange; Gropp, Lusk and Skjellum 1994).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.catalog import Catalog, Chip, Machine
from gpuyard.errors import InputError
from gpuyard.plan.eligible import chip_of
from gpuyard.units import bytes_from_bits
from gpuyard.workload import Hpc

__all__ = ["Bench", "RunTime", "bench_of", "run_times"]

Floats = npt.NDArray[np.float64]
BOUND_BYTES = {"fp64": 8.0, "fp32": 4.0, "bandwidth": 8.0}  # of one element of the data
FACES = 6  # of a block in three dimensions, each sent to one neighbour
# Latency of one MPI message. TCP: OSU benchmark between n1-standard-32, 47 µs (Rescale, "MPI latency on Google Compute
# Engine", 2016). RDMA: a tenth, as measured between TCP and RDMA on one InfiniBand link (Lockwood, "What's killing
# cloud interconnect performance", 2013). NCCL's GPUDirect-TCPX and TCPXO do not carry MPI.
TCP_S = 47e-6
RDMA_S = 4.7e-6
RDMA = ("roce", "infiniband")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One machine against the computation: rates in the bound's unit, bytes or operations a second."""

    machine: Machine
    core_s: float  # of the reference processor, for the whole run
    core_rate: float  # of one core of the reference
    core_bytes_per_s: float  # memory bandwidth of that core
    host_rate: float  # of all cores of the machine
    chip_rate: float  # of all accelerators of the machine; 0 without any
    memory_bytes: float  # where the working set has to lie: the accelerators' or the host's

    @property
    def speedup_ratio(self) -> float:
        """Of the part that may leave the CPU, against this machine's own cores."""
        return max(self.chip_rate, self.host_rate) / self.host_rate

    @property
    def offloads(self) -> bool:
        """True when the accelerators are faster than the cores; otherwise the work stays where it is."""
        return self.chip_rate > self.host_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """Seconds of the run by number of machines; the parts add up."""

    machine_count: npt.NDArray[np.int64]
    host_s: Floats  # what cannot leave the CPU
    offloaded_s: Floats  # what can, wherever it is faster
    message_s: Floats

    @property
    def total_s(self) -> Floats:
        """All of it."""
        return self.host_s + self.offloaded_s + self.message_s


def bench_of(hpc: Hpc, machine: Machine, catalog: Catalog) -> Bench | str:
    """The machine's rates against the work; or, in words, what the catalog does not know."""
    cpu = next((chip for chip in catalog.chips if chip.name == machine.cpu), None)
    if cpu is None or not cpu.core_count or not machine.core_count:
        return f"the catalog does not know the processor of {machine.name}"
    reference = _reference(hpc, catalog) or cpu
    core_rate, host_core_rate = _core_rate(reference, hpc.bound), _core_rate(cpu, hpc.bound)
    if core_rate is None or host_core_rate is None:
        unknown = reference if core_rate is None else cpu
        return f"no {hpc.bound} rate of {unknown.label} is known"
    chip = chip_of(machine, catalog)
    chip_rate = (_rate(chip, hpc.bound) if chip else 0.0) or 0.0
    if chip is not None and not chip_rate:
        return f"no {hpc.bound} rate of {chip.label} is known"
    host_rate = host_core_rate * machine.core_count
    on_chips = chip is not None and chip_rate * machine.chip_count > host_rate and hpc.offload_ratio > 0.0
    return Bench(
        machine=machine,
        core_s=_core_s(hpc, core_rate),
        core_rate=core_rate,
        core_bytes_per_s=reference.memory_bytes_per_s / (reference.core_count or 1),
        host_rate=host_rate,
        chip_rate=chip_rate * machine.chip_count,
        memory_bytes=chip.memory_bytes * machine.chip_count if chip and on_chips else machine.memory_bytes,
    )


def run_times(hpc: Hpc, bench: Bench, machine_count: npt.NDArray[np.int64]) -> RunTime:
    """The run's time for each number of machines."""
    machines = machine_count.astype(np.float64)
    work = bench.core_s * bench.core_rate  # bytes moved, or operations
    host_s = (1.0 - hpc.offload_ratio) * work / (bench.host_rate * machines)
    offloaded_s = hpc.offload_ratio * work / (max(bench.chip_rate, bench.host_rate) * machines)
    return RunTime(
        machine_count=machine_count,
        host_s=host_s,
        offloaded_s=offloaded_s,
        message_s=_message_s(hpc, bench, machines),
    )


def _message_s(hpc: Hpc, bench: Bench, machines: Floats) -> Floats:
    """Messages between machines; none without MPI, on one machine, or where the working set is not given."""
    if not hpc.mpi or not hpc.memory_bytes:
        return np.zeros_like(machines)
    traffic_bytes = bench.core_s * bench.core_bytes_per_s  # through memory in the whole run; at most this
    if hpc.flop_count is not None and hpc.bytes_per_flop is not None:
        traffic_bytes = hpc.flop_count * hpc.bytes_per_flop
    sweeps = traffic_bytes / hpc.memory_bytes  # times that the data is gone through
    element = BOUND_BYTES[hpc.bound]
    part = hpc.memory_bytes / machines / element  # elements of one machine
    halo_bytes = FACES * part ** (2.0 / 3.0) * element  # surface of a cube of them
    rdma = bench.machine.network.technology in RDMA
    latency_s = (RDMA_S if rdma else TCP_S) * (FACES + np.log2(machines))  # faces, and one reduction over all
    once_s = latency_s + halo_bytes / _network_bytes_per_s(bench.machine)
    return np.where(machines > 1.0, sweeps * once_s, 0.0)


def _network_bytes_per_s(machine: Machine) -> float:
    """What carries MPI: the fabric where it is RDMA, otherwise the host's own network."""
    network = machine.network
    fabric = network.fabric_bits_per_s if network.technology in RDMA else None
    speed = fabric or network.host_bits_per_s or network.max_bits_per_s
    return bytes_from_bits(speed) if speed else 0.0


def _reference(hpc: Hpc, catalog: Catalog) -> Chip | None:
    """The processor that core-hours were measured on; None where it is not named."""
    if hpc.measured_on is None or hpc.cpu_hours_count is None:
        return None
    wanted = hpc.measured_on.casefold()
    machine = next((row for row in catalog.machines if row.name.casefold() == wanted), None)
    found = catalog.chip(machine.cpu if machine else hpc.measured_on)
    if found.kind != "cpu" or not found.core_count:
        raise InputError.one(
            "hpc.measured_on", f"core-hours cannot be of {found.label}", "name the CPU machine or processor"
        )  # fmt: skip
    return found


def _core_s(hpc: Hpc, core_rate: float) -> float:
    """The work in seconds of one reference core."""
    if hpc.cpu_hours_count is not None:
        return hpc.cpu_hours_count * 3600.0
    assert hpc.flop_count is not None, "the checks of an HPC workload ask for one of the two"
    if hpc.bound == "bandwidth":
        return hpc.flop_count * (hpc.bytes_per_flop or 0.0) / core_rate
    return hpc.flop_count / core_rate


def _rate(chip: Chip, bound: str) -> float | None:
    """The chip's rate for the bound; of FP64 the vector units', the tensor cores' only where no other is known."""
    if bound == "bandwidth":
        return chip.memory_bytes_per_s
    if bound == "fp32":
        return chip.dense.fp32_flop_per_s
    measured = chip.best_measured.fp64_flop_per_s if chip.best_measured else None
    return chip.dense.fp64_flop_per_s or chip.dense.fp64_tensor_flop_per_s or measured


def _core_rate(cpu: Chip, bound: str) -> float | None:
    """One core's share of the socket's rate."""
    rate = _rate(cpu, bound)
    return rate / cpu.core_count if rate and cpu.core_count else None
