"""One line of `bench/simulate.py`, in a process of its own that loads no more than it needs; prints JSON."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from gpuyard.simulate.htsim_matrix import read_matrix
from gpuyard.simulate.network import fat_tree
from gpuyard.simulate.packet.packet_engine import simulate_packets
from gpuyard.simulate.packet.settings import HTSIM_ROCE, DcqcnSettings, EcnSettings

RATE_BITS_PER_S, DELAY_S = 400e9, 1e-6
PLAIN = replace(HTSIM_ROCE, acks="final")
SETTINGS = {
    "gpuyard": PLAIN,
    "DCQCN": replace(
        PLAIN,
        ecn=EcnSettings(kmin_bytes=800_000, kmax_bytes=3_200_000, pmax_ratio=0.2),
        dcqcn=DcqcnSettings(),
    ),
    "in band": HTSIM_ROCE,
}
REPEATS = 3


def resident_bytes(process: int | str) -> float:
    """The most memory that a process has held so far."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return float(found[1]) * 1024 if found else 0.0


def main() -> None:
    """Arguments: a matrix, the hosts of the fat tree, which settings, how many seeds."""
    matrix, hosts, label, seeds = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    traffic = read_matrix(matrix.read_text()).traffic
    network = fat_tree(hosts, rate_bits_per_s=RATE_BITS_PER_S, delay_s=DELAY_S)
    best_s, process_s, memory_bytes, means, lasts = float("inf"), 0.0, 0.0, [], []
    for seed in range(max(4 * seeds, REPEATS) if hosts <= 128 else max(seeds, REPEATS)):
        start_s = time.process_time()
        outcome = simulate_packets(network, traffic, replace(SETTINGS[label], seed=seed)).outcome
        best_s = min(best_s, time.process_time() - start_s)
        process_s = process_s or time.process_time()  # of the first run: the others repeat it
        memory_bytes = memory_bytes or resident_bytes("self")
        means.append(float(outcome.finish_s.mean()))
        lasts.append(outcome.duration_s)
    mean_s, last_s = sum(means) / len(means), sum(lasts) / len(lasts)
    figures = {"cpu_s": best_s, "process_s": process_s, "memory_bytes": memory_bytes}
    print(json.dumps({**figures, "mean_s": mean_s, "last_s": last_s}))


if __name__ == "__main__":
    main()
