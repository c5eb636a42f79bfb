"""All-reduce between processes of this machine: gloo on the CPU, NCCL where there are two GPUs or more.

    python -m gpuyard.measure.processes OUT.json BACKEND

Ranks come from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpuyard.errors import RefusedError
from gpuyard.measure.compute import has
from gpuyard.measure.timing import timed
from gpuyard.perf.local import Rate

__all__ = ["process_rates"]

SMALL_BYTES, LARGE_BYTES = 1024, 16 * 1024 * 1024
LIMIT_S = 180.0


def process_rates(processes: int = 2) -> Iterator[Rate]:
    """The time of a small all-reduce and the bus bandwidth of a large one; nothing without PyTorch."""
    if not has("torch"):
        return
    import torch

    many = torch.cuda.device_count() >= 2
    yield from _measured("nccl" if many else "gloo", torch.cuda.device_count() if many else processes)


def _measured(backend: str, processes: int) -> Iterator[Rate]:
    """What rank 0 of so many processes measured."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="gpuyard-measure-") as folder:
        out = Path(folder) / "rates.json"
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "gpuyard.measure.processes", str(out), backend],
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(port), "LOCAL_RANK": str(rank)},
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )
            for rank in range(processes)
        ]  # fmt: skip
        try:
            said = [process.communicate(timeout=LIMIT_S)[1] for process in started]
        except subprocess.TimeoutExpired as error:
            raise RefusedError(backend, f"no answer in {LIMIT_S:g} s", "try again on a quieter machine") from error
        finally:
            for process in started:
                process.kill()
        if not out.exists():
            words = next((text for text in said if text.strip()), "it ended at once").strip().splitlines()[-1]
            raise RefusedError(backend, words, "pip install 'gpuyard[torch]'")
        found = json.loads(out.read_text())
    yield Rate(kind="latency", by=backend, size=float(SMALL_BYTES), value=found["small_s"], spread_ratio=found["small"])
    bus = 2 * (processes - 1) / processes * LARGE_BYTES / found["large_s"]
    yield Rate(kind="allreduce", by=backend, size=float(LARGE_BYTES), value=bus, spread_ratio=found["large"])


def main(words: list[str]) -> None:
    """Measures in one of the processes."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    backend = words[1] if words[1] != "auto" else "nccl" if torch.cuda.is_available() else "gloo"
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = f"cuda:{local % torch.cuda.device_count()}" if backend == "nccl" else "cpu"
    dist.init_process_group(backend)
    found = {}
    for name, size in (("small", SMALL_BYTES), ("large", LARGE_BYTES)):
        data = torch.ones(size // 4, device=device)
        rounds = timed_together(lambda data=data: dist.all_reduce(data))
        found[f"{name}_s"], found[name] = rounds
    if dist.get_rank() == 0:
        Path(words[0]).write_text(json.dumps(found))
    dist.destroy_process_group()


def timed_together(call: object) -> tuple[float, float]:
    """The median time and its spread; every process calls equally often."""
    found = timed(call, 0.0)  # type: ignore[arg-type]
    return found.median_s, found.spread_ratio


if __name__ == "__main__":
    main(sys.argv[1:])
