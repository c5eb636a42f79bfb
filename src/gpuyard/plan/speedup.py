"""Run time of an HPC code on CPUs and accelerators: Amdahl's law over catalog rates, plus MPI.

Work is counted in seconds of one core of a reference CPU. The offloaded part runs at the
accelerators' rate for the bound (FP64, FP32 or memory bandwidth), the rest on the host's cores;
both reach the same fraction of their peaks as the reference (Amdahl 1967). Machines share the
work evenly and, with MPI, exchange halos once per sweep over the data (bulk-synchronous halo
exchange; Gropp, Lusk and Skjellum 1994).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import InputError
from gpuyard.units import HOUR_S, bytes_from_bits
from gpuyard.workload.eligibility import chip_of
from gpuyard.workload.sections import Hpc

Floats = npt.NDArray[np.float64]
BOUND_BYTES = {"fp64": 8.0, "fp32": 4.0, "bandwidth": 8.0}  # per element of the data
FACES = 6  # of a block in three dimensions, one neighbour each
# Latency of one MPI message. TCP: OSU benchmark between n1-standard-32, 47 µs (Rescale, "MPI
# latency on Google Compute Engine", 2016). RDMA: a tenth, as measured between TCP and RDMA on one
# InfiniBand link (Lockwood, "What's killing cloud interconnect performance", 2013). NCCL's
# GPUDirect-TCPX and TCPXO do not carry MPI.
TCP_S = 47e-6
RDMA_S = 4.7e-6
RDMA = ("roce", "infiniband", "efa")


@dataclass(frozen=True, slots=True, kw_only=True)
class HpcMachine:
    """A machine's rates for the code, in the unit of the bound: bytes or FLOPs per second."""

    machine: Machine
    core_s: float  # seconds of one reference core for the whole run
    core_rate: float  # of one reference core
    core_bytes_per_s: float  # memory bandwidth of that core
    host_rate: float  # of all cores of the machine
    chip_rate: float  # of all accelerators of the machine; 0 without any
    memory_bytes: float  # that must hold the working set: of the accelerators or the host

    @property
    def speedup_ratio(self) -> float:
        """Speedup of the offloaded part over this machine's own cores."""
        return max(self.chip_rate, self.host_rate) / self.host_rate

    @property
    def offloads(self) -> bool:
        """False if the accelerators are slower than the cores and stay idle."""
        return self.chip_rate > self.host_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """Seconds of the run by number of machines; the terms add up."""

    machine_count: npt.NDArray[np.int64]
    host_s: Floats  # cannot be offloaded
    offloaded_s: Floats  # can be offloaded, wherever it is faster
    message_s: Floats

    @property
    def total_s(self) -> Floats:
        return self.host_s + self.offloaded_s + self.message_s


def hpc_machine(hpc: Hpc, machine: Machine, catalog: Catalog) -> HpcMachine | str:
    """Return the machine's rates, or what the catalog does not know."""
    cpu = next((chip for chip in catalog.chips if chip.name == machine.cpu), None)
    if cpu is None or not cpu.core_count or not machine.core_count:
        return f"the CPU of {machine.name} is unknown"
    reference = _reference(hpc, catalog) or cpu
    core_rate, host_core_rate = _core_rate(reference, hpc.bound), _core_rate(cpu, hpc.bound)
    if core_rate is None or host_core_rate is None:
        unknown = reference if core_rate is None else cpu
        return f"no {hpc.bound} rate is known for {unknown.label}"
    chip = chip_of(machine, catalog)
    chip_rate = (_rate(chip, hpc.bound) if chip else 0.0) or 0.0
    if chip is not None and not chip_rate:
        return f"no {hpc.bound} rate is known for {chip.label}"
    host_rate = host_core_rate * machine.core_count
    on_chips = (
        chip is not None and chip_rate * machine.chip_count > host_rate and hpc.offload_ratio > 0.0
    )
    return HpcMachine(
        machine=machine,
        core_s=_core_s(hpc, core_rate),
        core_rate=core_rate,
        core_bytes_per_s=reference.memory_bytes_per_s / (reference.core_count or 1),
        host_rate=host_rate,
        chip_rate=chip_rate * machine.chip_count,
        memory_bytes=chip.memory_bytes * machine.chip_count
        if chip and on_chips
        else machine.memory_bytes,
    )


def run_times(hpc: Hpc, bench: HpcMachine, machine_count: npt.NDArray[np.int64]) -> RunTime:
    """Return the run time for each number of machines."""
    machines = machine_count.astype(np.float64)
    work = bench.core_s * bench.core_rate  # bytes moved, or FLOPs
    host_s = (1.0 - hpc.offload_ratio) * work / (bench.host_rate * machines)
    offloaded_s = hpc.offload_ratio * work / (max(bench.chip_rate, bench.host_rate) * machines)
    return RunTime(
        machine_count=machine_count,
        host_s=host_s,
        offloaded_s=offloaded_s,
        message_s=_message_s(hpc, bench, machines),
    )


def _message_s(hpc: Hpc, bench: HpcMachine, machines: Floats) -> Floats:
    """Time of MPI messages; zero without MPI, on one machine, or for an unknown working set."""
    if not hpc.mpi or not hpc.memory_bytes:
        return np.zeros_like(machines)
    traffic_bytes = bench.core_s * bench.core_bytes_per_s  # upper bound of the memory traffic
    if hpc.flop_count is not None and hpc.bytes_per_flop is not None:
        traffic_bytes = hpc.flop_count * hpc.bytes_per_flop
    sweeps = traffic_bytes / hpc.memory_bytes  # sweeps over the data
    element = BOUND_BYTES[hpc.bound]
    part = hpc.memory_bytes / machines / element  # elements per machine
    halo_bytes = FACES * part ** (2.0 / 3.0) * element  # surface of a cube of them
    rdma = has_rdma(bench.machine)
    messages = FACES + np.log2(machines)  # halo faces, and one reduction over all machines
    latency_s = (RDMA_S if rdma else TCP_S) * messages
    once_s = latency_s + halo_bytes / _network_bytes_per_s(bench.machine)
    return np.where(machines > 1.0, sweeps * once_s, 0.0)


def has_rdma(machine: Machine) -> bool:
    """Return True if MPI messages between the machines use RDMA."""
    return machine.network.technology in RDMA or machine.network.host_rdma


def _network_bytes_per_s(machine: Machine) -> float:
    """The fabric if it is RDMA, otherwise the host network, carries MPI."""
    network = machine.network
    fabric = network.fabric_bits_per_s if network.technology in RDMA else None
    speed = fabric or network.host_bits_per_s or network.max_bits_per_s
    return bytes_from_bits(speed) if speed else 0.0


def _reference(hpc: Hpc, catalog: Catalog) -> Chip | None:
    """The CPU that core-hours were measured on, or None."""
    if hpc.measured_on is None or hpc.cpu_hours_count is None:
        return None
    name = hpc.measured_on.casefold()
    machine = next((row for row in catalog.machines if row.name.casefold() == name), None)
    cpu = catalog.chip(machine.cpu if machine else hpc.measured_on)
    if cpu.kind != "cpu" or not cpu.core_count:
        raise InputError.one(
            "hpc.measured_on",
            f"core-hours cannot be measured on {cpu.label}",
            "use a CPU machine or a CPU",
        )
    return cpu


def _core_s(hpc: Hpc, core_rate: float) -> float:
    if hpc.cpu_hours_count is not None:
        return hpc.cpu_hours_count * HOUR_S
    assert hpc.flop_count is not None, "the workload checks require cpu_hours or flop"
    if hpc.bound == "bandwidth":
        return hpc.flop_count * (hpc.bytes_per_flop or 0.0) / core_rate
    return hpc.flop_count / core_rate


def _rate(chip: Chip, bound: str) -> float | None:
    """The chip's rate for the bound; FP64 of tensor cores only if vector units are unknown."""
    if bound == "bandwidth":
        return chip.memory_bytes_per_s
    if bound == "fp32":
        return chip.dense.fp32_flop_per_s
    measured = chip.best_measured.fp64_flop_per_s if chip.best_measured else None
    return chip.dense.fp64_flop_per_s or chip.dense.fp64_tensor_flop_per_s or measured


def _core_rate(cpu: Chip, bound: str) -> float | None:
    rate = _rate(cpu, bound)
    return rate / cpu.core_count if rate and cpu.core_count else None
