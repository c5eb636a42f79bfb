"""Measures all-reduce in a lab: one process per server, the buffer divided over the rails.

    python -m gpuyard.lab.allreduce OUT.json SIZE_BYTES…

Ranks come from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Gloo sends the operations of a group
round-robin over the interfaces of GLOO_SOCKET_IFNAME, so one operation per rail uses all rails.
"""

from __future__ import annotations

import datetime
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document.encode import dump_json
from gpuyard.home import write_atomic

TIMEOUT = datetime.timedelta(minutes=5)
ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceSample:
    """The time of one buffer size."""

    size_bytes: int
    time_s: float
    bus_bytes_per_s: float  # nccl-tests' definition: 2 (n - 1) / n x size / time


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceResult:
    """The times of all buffer sizes."""

    ranks_count: int
    rails_count: int
    points: tuple[AllReduceSample, ...]


def measure(sizes: list[int]) -> AllReduceResult:
    """Measure an all-reduce of each size: the median of a few rounds after a warm-up."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rails = len(os.environ.get("GLOO_SOCKET_IFNAME", "lo").split(","))
    dist.init_process_group("gloo", timeout=TIMEOUT)
    ranks, points = dist.get_world_size(), []
    for size in sizes:
        parts = [torch.ones(max(1, size // 4 // rails), dtype=torch.float32) for _ in range(rails)]
        times = []
        for _ in range(1 + ROUNDS):
            dist.barrier()
            start_s = time.perf_counter()
            for work in [dist.all_reduce(part, async_op=True) for part in parts]:
                work.wait()
            times.append(time.perf_counter() - start_s)
        size_bytes = sum(part.numel() * 4 for part in parts)
        took_s = statistics.median(times[1:])
        points.append(
            AllReduceSample(
                size_bytes=size_bytes,
                time_s=took_s,
                bus_bytes_per_s=2 * (ranks - 1) / ranks * size_bytes / took_s,
            )
        )
    dist.destroy_process_group()
    return AllReduceResult(ranks_count=ranks, rails_count=rails, points=tuple(points))


def main(arguments: list[str]) -> None:
    """Measure on every rank, and write the result of rank 0."""
    result = measure([int(size) for size in arguments[1:]])
    if os.environ.get("RANK", "0") == "0":
        write_atomic(Path(arguments[0]), dump_json(result))


if __name__ == "__main__":
    main(sys.argv[1:])
