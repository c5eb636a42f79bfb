"""What serving a bundle takes, measured: `python -m gpuyard.learn.select.footprint FOLDER` in a process of its own.

One thread of the ONNX runtime, random rows, after a warm-up. The transform in front of the model is not in it.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gpuyard.document import dump_json, load_json
from gpuyard.errors import InputError, RefusedError
from gpuyard.learn.select.selection import Footprint
from gpuyard.registry import ONNX, read_bundle

__all__ = ["footprint_of", "main", "measure_here"]

BATCH_ROWS = 32
SINGLES, BATCHES, WARM_UP = 300, 30, 20
TIME_LIMIT_S = 120.0


def footprint_of(folder: Path) -> Footprint:
    """The footprint of the bundle in `folder`, measured in a fresh process."""
    bundle = read_bundle(folder)
    if bundle.kind == "language":
        raise InputError.one(str(folder), "a language model has no ONNX form to time", "leave out limits.latency")
    command = [sys.executable, "-m", "gpuyard.learn.select.footprint", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise RefusedError(
            str(folder), f"took longer than {TIME_LIMIT_S:g} s to time", "try a smaller model"
        ) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RefusedError(str(folder), f"cannot be timed: {last}", "pip install 'gpuyard[run]', or export it again")
    return load_json(done.stdout, Footprint)


def measure_here(folder: Path) -> Footprint:
    """The footprint, measured in this process."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / ONNX), options, providers=["CPUExecutionProvider"])
    width = session.get_inputs()[0].shape[-1]
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(BATCH_ROWS, int(width))).astype(np.float32)

    def answer(count: int) -> Callable[[], object]:
        """The model on so many rows."""
        return lambda: session.run(None, {"x": rows[:count]})

    singles, batches = _times(answer(1), SINGLES), _times(answer(BATCH_ROWS), BATCHES)
    return Footprint(
        latency_s=statistics.median(singles),
        latency_p99_s=sorted(singles)[math.ceil(0.99 * len(singles)) - 1],
        batch_latency_s=statistics.median(batches),
        batch_rows=BATCH_ROWS,
        memory_bytes=_peak_bytes(),
        size_bytes=float(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())),
    )


def _peak_bytes() -> float:
    """The largest resident set since this program began; getrusage would tell its parent's, before the exec."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024
    raise RefusedError("/proc/self/status", "does not tell VmHWM", "leave out limits.memory")


def _times(call: Callable[[], object], count: int) -> list[float]:
    """How long each call takes, after some that do not count."""
    for _ in range(WARM_UP):
        call()
    found = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return found


def main(arguments: list[str]) -> int:
    """Prints the footprint of a folder as JSON."""
    sys.stdout.write(dump_json(measure_here(Path(arguments[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
