"""Serving footprint of a bundle: latency, memory and size, measured in a separate process.

    python -m gpuyard.learn.select.footprint FOLDER

One thread of ONNX Runtime, random rows, after a warm-up; without the transform before the model.
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

from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import ExternalError, InputError
from gpuyard.learn.memory import peak_bytes
from gpuyard.learn.select.selection import Footprint
from gpuyard.registry.bundle import ONNX, read_bundle

BATCH_ROWS = 32
SINGLES = 300
BATCHES = 30
WARM_UP = 20
TIMEOUT_S = 120.0


def footprint_of(folder: Path) -> Footprint:
    """Measure the footprint of the bundle in `folder` in a new process."""
    bundle = read_bundle(folder)
    if bundle.kind == "language":
        raise InputError.one(
            str(folder), "a language model has no ONNX file to time", "remove limits.latency"
        )
    command = [sys.executable, "-m", "gpuyard.learn.select.footprint", str(folder)]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ExternalError(
            str(folder), f"timing took longer than {TIMEOUT_S:g} s", "use a smaller model"
        ) from error
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise ExternalError(
            str(folder),
            f"cannot be timed: {last}",
            "pip install 'gpuyard[run]', or export it again",
        )
    return load_json(process.stdout, Footprint)


def measure_here(folder: Path) -> Footprint:
    """Measure the footprint in this process."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(folder / ONNX), options, providers=["CPUExecutionProvider"]
    )
    source = session.get_inputs()[0]
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(BATCH_ROWS, *source.shape[1:])).astype(np.float32)

    def predict(count: int) -> Callable[[], object]:
        return lambda: session.run(None, {source.name: rows[:count]})

    singles, batches = _times(predict(1), SINGLES), _times(predict(BATCH_ROWS), BATCHES)
    return Footprint(
        latency_s=statistics.median(singles),
        latency_p99_s=sorted(singles)[math.ceil(0.99 * len(singles)) - 1],
        batch_latency_s=statistics.median(batches),
        batch_rows=BATCH_ROWS,
        memory_bytes=peak_bytes(),
        size_bytes=float(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())),
    )


def _times(call: Callable[[], object], count: int) -> list[float]:
    for _ in range(WARM_UP):
        call()
    times = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return times


def main(arguments: list[str]) -> int:
    """Print the footprint of a bundle as JSON."""
    sys.stdout.write(dump_json(measure_here(Path(arguments[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
