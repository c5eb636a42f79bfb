"""A whole search for a service: `python bench/plan_inference.py`.

Plans Llama 3 70B for 20 requests a second over every machine of the catalog: number formats, layouts, engines, batches
and replicas by the closed form, then the shortlist request by request. It reports the CPU time of
`gpuyard plan` as a separate process, with and without the fixed start (Python, imports with Numba,
the cached machine code); the first run compiles and is not counted. The limit is 10 s.
For scale: AIConfigurator 0.12.0 takes 15 to 16 s of CPU for the same model on one machine type (8 x H100, one load).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR_S = 10.0
REPEATS = 3
START = """
import numpy as np
import gpuyard.app.plan
from gpuyard.perf.inference.columns import COLUMNS
from gpuyard.perf.inference.step import step_time_s
step_time_s(np.ones(len(COLUMNS)), 0.0, 0.0, 1.0, 1.0, 1.0)
"""
WORKLOAD = """task: inference
model: llama-3-70b
traffic: {input: 1000, output: 200}
requirements: {requests: 20/s, ttft: 500ms, tpot: 50ms, p99: 20s}
"""


def cpu_s(command: list[str]) -> tuple[float, float, str]:
    """CPU and wall seconds of a command, and what it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - began, done.stdout


def main() -> int:
    """Prints the times; 1 if the best is over the bar."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "w.yaml"
        file.write_text(WORKLOAD, encoding="utf-8")
        command = [sys.executable, "-m", "gpuyard", "plan", str(file), "--json"]
        cpu_s(command)  # compiles what is not compiled yet
        runs = [cpu_s(command) for _ in range(REPEATS)]
    start = min(cpu_s([sys.executable, "-c", START])[0] for _ in range(REPEATS + 1))
    used, wall, text = min(runs)
    plan = json.loads(text)
    print(
        f"{plan['searched_count']:,} configurations, {len(plan['options'])} machine types simulated and priced: "
        f"{used:.2f} s of CPU, {used - start:.2f} s without the fixed start, "
        f"{wall:.2f} s in all on {os.cpu_count()} cores (bar {BAR_S:g} s)"
    )
    return 0 if used <= BAR_S else 1


if __name__ == "__main__":
    sys.exit(main())
