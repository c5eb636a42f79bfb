"""The packet engine beside csg-htsim: `python bench/simulate.py [path to htsim_roce] [--only permutation] [--seeds 3]`.

Without the executable, our figures stand beside those taken on a quiet machine of 2 vCPU (AMD EPYC, 2.45 GHz) with
csg-htsim 841d9e7. Both read the same matrix file: k-ary fat tree, 400 Gb/s, 1 µs links, PFC at 150 and 120 packets of
4096 B an ingress port, ECMP by flow, no congestion control. Every line of ours is a fresh process. Times are CPU
seconds, ours twice: of the simulation alone, and of a whole process that runs it once (`process`),
which includes the fixed start: Python, imports with Numba, the cached machine code and the matrix
file. Memory is the peak of a process (VmHWM), fixed start included. `DCQCN` has marking and rate
control on; `in band` sends every acknowledgement through the data queues as htsim does, where the
other two send only those that end a flow.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuyard.simulate.htsim_matrix import write_matrix
from gpuyard.simulate.traffic import FlowSet, all_to_all, incast, permutation, traffic_of
from simulate_one import SETTINGS, resident_bytes

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A matrix, and what csg-htsim needed for it: CPU seconds, resident memory, mean and last completion."""

    name: str
    host_count: int
    make: Callable[[], FlowSet]
    htsim_cpu_s: float | None = None
    htsim_memory_bytes: float | None = None
    htsim_mean_s: float | None = None
    htsim_last_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one simulator needed and found."""

    cpu_s: float
    process_s: float  # with the fixed start
    memory_bytes: float
    mean_s: float
    last_s: float


def ring(ranks: int, total_bytes: int, step_count: int | None = None) -> FlowSet:
    """A ring all-reduce: 2(n - 1) steps from every rank, or its first so many, each after the one before."""
    steps = 2 * (ranks - 1) if step_count is None else step_count
    source = [(rank + step) % ranks for rank in range(ranks) for step in range(steps)]
    after = tuple(
        (rank * steps + step - 1,) if step else () for rank in range(ranks) for step in range(steps)
    )
    return traffic_of(
        source, [(each + 1) % ranks for each in source], total_bytes // ranks, after=after
    )


def grouped(hosts: int, group: int, size_bytes: int) -> FlowSet:
    """All-to-alls in groups whose members are as far apart as can be, as experts are."""
    whole, stride = all_to_all(group, size_bytes), hosts // group
    pairs = [
        (whole.source * stride + first, whole.target * stride + first) for first in range(stride)
    ]
    return traffic_of(
        np.concatenate([one for one, _ in pairs]),
        np.concatenate([to for _, to in pairs]),
        size_bytes,
    )


CASES = (
    Case(name="permutation 128 x 1 MiB", host_count=128, make=lambda: permutation(128, MIB, seed=1),
         htsim_cpu_s=0.26, htsim_memory_bytes=17e6, htsim_mean_s=62.3e-6, htsim_last_s=101.1e-6),
    Case(name="permutation 128 x 16 MiB", host_count=128, make=lambda: permutation(128, 16 * MIB, seed=1),
         htsim_cpu_s=7.0, htsim_memory_bytes=31e6, htsim_mean_s=945e-6, htsim_last_s=1716e-6),
    Case(name="permutation 1,024 x 2 MiB", host_count=1024, make=lambda: permutation(1024, 2 * MIB, seed=1),
         htsim_cpu_s=22.0, htsim_memory_bytes=184e6, htsim_mean_s=133e-6, htsim_last_s=277e-6),
    Case(name="permutation 8,192 x 0.5 MiB", host_count=8192, make=lambda: permutation(8192, MIB // 2, seed=1),
         htsim_cpu_s=79.0, htsim_memory_bytes=1964e6, htsim_mean_s=41.5e-6, htsim_last_s=82e-6),
    Case(name="incast 127 to 1, 1 MiB", host_count=128, make=lambda: incast(128, MIB),
         htsim_cpu_s=0.16, htsim_memory_bytes=14e6, htsim_mean_s=2010e-6, htsim_last_s=2713.1e-6),
    Case(name="incast 1,023 to 1, 256 KiB", host_count=1024, make=lambda: incast(1024, MIB // 4),
         htsim_cpu_s=1.2, htsim_memory_bytes=80e6, htsim_mean_s=4141e-6, htsim_last_s=5455.4e-6),
    Case(name="all-to-all 128 x 64 KiB", host_count=128, make=lambda: all_to_all(128, MIB // 16),
         htsim_cpu_s=9.8, htsim_memory_bytes=98e6, htsim_mean_s=188e-6, htsim_last_s=215e-6),
    Case(name="ring 16, 64 MiB", host_count=16, make=lambda: ring(16, 64 * MIB),
         htsim_cpu_s=1.25, htsim_memory_bytes=15e6, htsim_mean_s=1453e-6, htsim_last_s=2815e-6),
    Case(name="ring 128, 8 MiB", host_count=128, make=lambda: ring(128, 8 * MIB),
         htsim_cpu_s=9.0, htsim_memory_bytes=83e6, htsim_mean_s=859e-6, htsim_last_s=1715e-6),
    Case(name="all-to-all 1,024 in 64s, 32 KiB", host_count=1024, make=lambda: grouped(1024, 64, MIB // 32),
         htsim_cpu_s=42.7, htsim_memory_bytes=507e6, htsim_mean_s=57.4e-6, htsim_last_s=72.2e-6),
    Case(name="ring 1,024, 64 steps of 64 KiB", host_count=1024, make=lambda: ring(1024, 64 * MIB, 64),
         htsim_cpu_s=31.9, htsim_memory_bytes=236e6, htsim_mean_s=195.3e-6, htsim_last_s=385.2e-6),
)  # fmt: skip


def ours(matrix: Path, host_count: int, label: str, seeds: int) -> Figures:
    """What a fresh process of ours needs and finds."""
    one_line = Path(__file__).with_name("simulate_one.py")
    command = [sys.executable, str(one_line), str(matrix), str(host_count), label, str(seeds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Figures(**json.loads(done.stdout))


def htsim(binary: str, matrix: Path, host_count: int, seeds: int) -> Figures:
    """What csg-htsim needs and finds."""
    best_s, memory_bytes, means, lasts = float("inf"), 0.0, [], []
    with tempfile.TemporaryDirectory() as folder:
        told_file = Path(folder, "out")
        for seed in range(1, seeds + 1):
            command = [
                binary,
                "-nodes",
                str(host_count),
                "-tm",
                str(matrix),
                "-strat",
                "ecmp_host",
                "-paths",
                "128",
                "-linkspeed",
                "400000",
                "-mtu",
                "4096",
                "-q",
                "1000000",
                "-pfc_thresholds",
                "120",
                "150",
                "-end",
                "1000000",
                "-seed",
                str(seed),
                "-o",
                str(Path(folder, "log")),
            ]
            with told_file.open("w") as out:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                process = subprocess.Popen(command, stdout=out, cwd=folder)
                while process.poll() is None:
                    memory_bytes = max(memory_bytes, resident_bytes(process.pid))
                    time.sleep(0.02)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best_s = min(
                best_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            )
            ends = [
                float(end) * 1e-6 for end in re.findall(r"finished at (\S+)", told_file.read_text())
            ]
            means.append(sum(ends) / len(ends))
            lasts.append(max(ends))
    return Figures(
        cpu_s=best_s,
        process_s=best_s,
        memory_bytes=memory_bytes,
        mean_s=sum(means) / len(means),
        last_s=sum(lasts) / len(lasts),
    )


def recorded(case: Case) -> Figures | None:
    """What is known of csg-htsim without running it."""
    if case.htsim_cpu_s is None:
        return None
    return Figures(
        cpu_s=case.htsim_cpu_s,
        process_s=case.htsim_cpu_s,
        memory_bytes=case.htsim_memory_bytes or 0.0,
        mean_s=case.htsim_mean_s or 0.0,
        last_s=case.htsim_last_s or 0.0,
    )


def told(label: str, mine: Figures, theirs: Figures | None) -> str:
    """A line of the table."""
    line = (
        f"  {label:<10}{mine.cpu_s:>9.3f} s {mine.process_s:>7.2f} s {mine.memory_bytes / 1e6:>7.0f} MB"
        f" {mine.mean_s * 1e6:>10.1f} {mine.last_s * 1e6:>10.1f}"
    )
    if theirs is None:
        return line
    return line + (
        f"{theirs.cpu_s / mine.cpu_s:>8.1f}x {theirs.process_s / mine.process_s:>8.1f}x"
        f" {100 * (mine.mean_s / theirs.mean_s - 1):>+8.1f} %"
        f" {100 * (mine.last_s / theirs.last_s - 1):>+7.1f} %"
    )


def one(case: Case, binary: str | None, seeds: int) -> None:
    """Runs a case and prints its lines."""
    traffic = case.make()
    with tempfile.TemporaryDirectory() as folder:
        matrix = Path(folder, "traffic.cm")
        matrix.write_text(write_matrix(traffic, case.host_count))
        theirs = htsim(binary, matrix, case.host_count, seeds) if binary else recorded(case)
        print(f"{case.name}: {traffic.flow_count:,} flows")
        if theirs:
            print(told("csg-htsim", theirs, None))
        for label in SETTINGS:
            mine = ours(matrix, case.host_count, label, seeds)
            print(told(label, mine, theirs), flush=True)


def start_up() -> tuple[float, float]:
    """What a fresh process takes to import and run a small simulation, and its resident memory."""
    code = (
        "import resource, time\n"
        "from gpuyard.simulate.network import single_switch\n"
        "from gpuyard.simulate.packet.packet_engine import simulate_packets\n"
        "from gpuyard.simulate.traffic import incast\n"
        "simulate_packets(single_switch(3, rate_bits_per_s=4e11, delay_s=1e-6), incast(3, 4096))\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(time.process_time(), used.ru_maxrss * 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cpu_s, memory_bytes = done.stdout.split()
    return float(cpu_s), float(memory_bytes)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("htsim_roce", nargs="?", help="path of csg-htsim's executable")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    start_up()  # the first start compiles
    cpu_s, memory_bytes = start_up()
    print(f"fixed start, code cached: {cpu_s:.2f} CPU s, {memory_bytes / 1e6:.0f} MB")
    print(
        f"{'':<12}{'CPU':>11} {'process':>9} {'memory':>10} {'mean us':>10} {'last us':>10}"
        f" {'ratio':>8} {'process':>9} {'mean':>10} {'last':>9}"
    )
    for case in CASES:
        if options.only in case.name:
            one(case, options.htsim_roce, options.seeds)


if __name__ == "__main__":
    main()
