"""On Ray the same rows come out; a worker that dies is replaced; a wrong file is the user's error there too."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None and os.environ.get("GPUYARD_REQUIRE_ALL") != "1",
    reason="ray is not installed (the extra `ray`)",
)
def test_engines_agree_and_a_lost_worker_is_replaced(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    env = dict(os.environ, PYTHONPATH=str(root), RAY_USAGE_STATS_ENABLED="0")
    line = [sys.executable, str(Path(__file__).with_name("ray_run.py")), str(tmp_path)]
    done = subprocess.run(line, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "broken.parquet: cannot be read" in done.stdout
