"""The packet engine beside csg-htsim: `python bench/simulate.py [path to htsim_roce] [--only permutation] [--seeds 3]`.

Without the executable, our times stand beside figures taken on a quiet machine of 2 vCPU (AMD EPYC, 2.45 GHz) with
csg-htsim 841d9e7. Both run the same matrices: k-ary fat tree, 400 Gb/s, 1 µs links, PFC at 150 and 120 packets of
4096 B an ingress port, ECMP by flow, no congestion control. Times are CPU seconds; ours are those of the simulation
without the start of Python, which is told apart. `DCQCN` has marking and rate control on; `in band` sends every
acknowledgement through the data queues as htsim does, where the other two send only those that end a flow.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.simulate.matrices import write_matrix
from gpuyard.simulate.network import fat_tree
from gpuyard.simulate.packet import HTSIM_ROCE, Dcqcn, Ecn, PacketSettings, simulate_packets
from gpuyard.simulate.traffic import Traffic, all_to_all, incast, permutation, traffic_of

MIB = 1 << 20
RATE_BITS_PER_S, DELAY_S = 400e9, 1e-6
PLAIN = replace(HTSIM_ROCE, acks="final")
CONTROLLED = replace(PLAIN, ecn=Ecn(kmin_bytes=800_000, kmax_bytes=3_200_000, pmax_ratio=0.2), dcqcn=Dcqcn())
REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A matrix, and what csg-htsim needed for it: CPU seconds, resident memory, mean and last completion."""

    name: str
    host_count: int
    make: Callable[[], Traffic]
    htsim_cpu_s: float | None = None
    htsim_memory_bytes: float | None = None
    htsim_mean_s: float | None = None
    htsim_last_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one simulator needed and found."""

    cpu_s: float
    memory_bytes: float
    mean_s: float
    last_s: float


def ring(ranks: int, total_bytes: int) -> Traffic:
    """A ring all-reduce: 2(n - 1) steps from every rank, each after the one before."""
    steps = 2 * (ranks - 1)
    source = [(rank + step) % ranks for rank in range(ranks) for step in range(steps)]
    after = tuple((rank * steps + step - 1,) if step else () for rank in range(ranks) for step in range(steps))
    return traffic_of(source, [(each + 1) % ranks for each in source], total_bytes // ranks, after=after)


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
    Case(name="incast 1,023 to 1, 256 KiB", host_count=1024, make=lambda: incast(1024, MIB // 4)),
    Case(name="all-to-all 128 x 64 KiB", host_count=128, make=lambda: all_to_all(128, MIB // 16),
         htsim_cpu_s=9.8, htsim_memory_bytes=98e6, htsim_mean_s=188e-6, htsim_last_s=215e-6),
    Case(name="ring 16, 64 MiB", host_count=16, make=lambda: ring(16, 64 * MIB),
         htsim_cpu_s=1.25, htsim_memory_bytes=15e6, htsim_mean_s=1453e-6, htsim_last_s=2815e-6),
    Case(name="ring 128, 8 MiB", host_count=128, make=lambda: ring(128, 8 * MIB),
         htsim_cpu_s=9.0, htsim_memory_bytes=83e6, htsim_mean_s=859e-6, htsim_last_s=1715e-6),
)  # fmt: skip


def ours(case: Case, traffic: Traffic, settings: PacketSettings, seeds: int) -> Figures:
    """The best time of a few, and completion over the seeds."""
    network = fat_tree(case.host_count, rate_bits_per_s=RATE_BITS_PER_S, delay_s=DELAY_S)
    best_s, means, lasts = float("inf"), [], []
    for seed in range(max(4 * seeds, REPEATS) if case.host_count <= 128 else max(seeds, REPEATS)):
        start_s = time.process_time()
        outcome = simulate_packets(network, traffic, replace(settings, seed=seed)).outcome
        best_s = min(best_s, time.process_time() - start_s)
        means.append(float(outcome.finish_s.mean()))
        lasts.append(outcome.duration_s)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Figures(
        cpu_s=best_s, memory_bytes=peak_bytes, mean_s=sum(means) / len(means), last_s=sum(lasts) / len(lasts)
    )


def htsim(binary: str, case: Case, traffic: Traffic, seeds: int) -> Figures:
    """The same of csg-htsim."""
    best_s, memory_bytes, means, lasts = float("inf"), 0.0, [], []
    with tempfile.TemporaryDirectory() as folder:
        matrix, told_file = Path(folder, "traffic.cm"), Path(folder, "out")
        matrix.write_text(write_matrix(traffic, case.host_count))
        for seed in range(1, seeds + 1):
            command = [
                binary, "-nodes", str(case.host_count), "-tm", str(matrix), "-strat", "ecmp_host", "-paths", "128",
                "-linkspeed", "400000", "-mtu", "4096", "-q", "1000000", "-pfc_thresholds", "120", "150",
                "-end", "1000000", "-seed", str(seed), "-o", str(Path(folder, "log")),
            ]  # fmt: skip
            with told_file.open("w") as out:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                child = subprocess.Popen(command, stdout=out, cwd=folder)
                while child.poll() is None:
                    memory_bytes = max(memory_bytes, resident_bytes(child.pid))
                    time.sleep(0.02)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best_s = min(best_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            ends = [float(end) * 1e-6 for end in re.findall(r"finished at (\S+)", told_file.read_text())]
            means.append(sum(ends) / len(ends))
            lasts.append(max(ends))
    return Figures(
        cpu_s=best_s, memory_bytes=memory_bytes, mean_s=sum(means) / len(means), last_s=sum(lasts) / len(lasts)
    )


def resident_bytes(process: int) -> float:
    """The most memory that a process has held so far."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return float(found[1]) * 1024 if found else 0.0


def recorded(case: Case) -> Figures | None:
    """What is known of csg-htsim without running it."""
    if case.htsim_cpu_s is None:
        return None
    return Figures(
        cpu_s=case.htsim_cpu_s, memory_bytes=case.htsim_memory_bytes or 0.0,
        mean_s=case.htsim_mean_s or 0.0, last_s=case.htsim_last_s or 0.0,
    )  # fmt: skip


def told(label: str, mine: Figures, theirs: Figures | None) -> str:
    """A line of the table."""
    line = f"  {label:<10}{mine.cpu_s:>9.3f} s {mine.mean_s * 1e6:>10.1f} {mine.last_s * 1e6:>10.1f}"
    if theirs is None:
        return line
    return line + (
        f"{theirs.cpu_s / mine.cpu_s:>8.1f}x {100 * (mine.mean_s / theirs.mean_s - 1):>+8.1f} %"
        f" {100 * (mine.last_s / theirs.last_s - 1):>+7.1f} %"
    )


def one(case: Case, binary: str | None, seeds: int) -> None:
    """Runs a case and prints its lines."""
    traffic = case.make()
    theirs = htsim(binary, case, traffic, seeds) if binary else recorded(case)
    print(f"{case.name}: {traffic.flow_count:,} flows")
    if theirs:
        print(
            f"  {'csg-htsim':<10}{theirs.cpu_s:>9.3f} s {theirs.mean_s * 1e6:>10.1f} {theirs.last_s * 1e6:>10.1f}"
            f"   {theirs.memory_bytes / 1e6:.0f} MB"
        )
    for label, settings in (("gpuyard", PLAIN), ("DCQCN", CONTROLLED), ("in band", HTSIM_ROCE)):
        mine = ours(case, traffic, settings, seeds)
        print(told(label, mine, None if label == "DCQCN" and theirs is None else theirs), flush=True)
    print(f"  peak memory of this process {mine.memory_bytes / 1e6:.0f} MB", flush=True)


def start_up() -> tuple[float, float]:
    """What a fresh process takes to import and run a small simulation, and its resident memory."""
    code = (
        "import resource, time\n"
        "from gpuyard.simulate.network import single_switch\n"
        "from gpuyard.simulate.packet import simulate_packets\n"
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
    print(f"second start: {cpu_s:.2f} CPU s, {memory_bytes / 1e6:.0f} MB, of which Python, NumPy and Numba are most")
    print(f"{'':<12}{'CPU':>11} {'mean us':>10} {'last us':>10} {'ratio':>8} {'mean':>10} {'last':>9}")
    for case in CASES:
        if options.only in case.name:
            one(case, options.htsim_roce, options.seeds)


if __name__ == "__main__":
    main()
