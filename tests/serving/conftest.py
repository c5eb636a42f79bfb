"""Tests of the server need the extras of running; without them they are left out, unless all must be there."""

import importlib.util
import os

NEEDED = ("granian", "msgspec", "onnx", "onnxruntime", "polars")
if os.environ.get("GPUYARD_REQUIRE_ALL") != "1" and any(
    importlib.util.find_spec(name) is None for name in NEEDED
):
    collect_ignore = [
        "test_batches.py",
        "test_completions.py",
        "test_engine.py",
        "test_faults.py",
        "test_protocol.py",
        "test_rollout.py",
    ]
