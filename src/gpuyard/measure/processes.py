"""All-reduce between processes on this host: gloo on the CPU, NCCL with two GPUs or more.

    python -m gpuyard.measure.processes OUT.json BACKEND

Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from the environment.
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

from gpuyard.errors import ExternalError
from gpuyard.measure.compute import has
from gpuyard.measure.timing import timed
from gpuyard.perf.local.profile import Rate

SMALL_BYTES, LARGE_BYTES = 1024, 16 * 1024 * 1024
TIMEOUT_S = 180.0


def process_rates(processes: int = 2) -> Iterator[Rate]:
    """Yield the latency of a small all-reduce and the bus bandwidth of a large one."""
    if not has("torch"):
        return
    import torch

    gpus = torch.cuda.device_count()
    if gpus >= 2:
        yield from _measured("nccl", gpus)
    else:
        yield from _measured("gloo", processes)


def _measured(backend: str, processes: int) -> Iterator[Rate]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="gpuyard-measure-") as folder:
        out = Path(folder) / "rates.json"
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "gpuyard.measure.processes", str(out), backend],
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": str(processes),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "LOCAL_RANK": str(rank),
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(processes)
        ]
        try:
            stderr = [process.communicate(timeout=TIMEOUT_S)[1] for process in started]
        except subprocess.TimeoutExpired as error:
            raise ExternalError(
                backend, f"no result after {TIMEOUT_S:g} s", "try again on a less loaded machine"
            ) from error
        finally:
            for process in started:
                process.kill()
        if not out.exists():
            message = next((text for text in stderr if text.strip()), "exited without a message")
            last_line = message.strip().splitlines()[-1]
            raise ExternalError(backend, last_line, "pip install 'gpuyard[torch]'")
        timings = json.loads(out.read_text())
    yield Rate(
        kind="latency",
        by=backend,
        size=float(SMALL_BYTES),
        value=timings["small_s"],
        spread_ratio=timings["small"],
    )
    bus = 2 * (processes - 1) / processes * LARGE_BYTES / timings["large_s"]
    yield Rate(
        kind="allreduce",
        by=backend,
        size=float(LARGE_BYTES),
        value=bus,
        spread_ratio=timings["large"],
    )


def main(arguments: list[str]) -> None:
    """Run the all-reduces in one of the processes; rank 0 writes the result."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    backend = (
        arguments[1] if arguments[1] != "auto" else "nccl" if torch.cuda.is_available() else "gloo"
    )
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = f"cuda:{local % torch.cuda.device_count()}" if backend == "nccl" else "cpu"
    dist.init_process_group(backend)
    timings = {}
    for name, size in (("small", SMALL_BYTES), ("large", LARGE_BYTES)):
        data = torch.ones(size // 4, device=device)
        # No time budget: every process must call equally often.
        timing = timed(lambda data=data: dist.all_reduce(data), 0.0)  # type: ignore[misc]
        timings[f"{name}_s"] = timing.median_s
        timings[name] = timing.spread_ratio
    if dist.get_rank() == 0:
        Path(arguments[0]).write_text(json.dumps(timings))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
