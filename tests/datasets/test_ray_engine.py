"""Ray engine: equal rows as the local engine, retries of lost workers, the same errors."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.datasets.engines.ray import ray_address
from gpuyard.errors import ExternalError, InputError


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None and os.environ.get("GPUYARD_REQUIRE_ALL") != "1",
    reason="ray is not installed (the extra `ray`)",
)
def test_ray_matches_local_engine_and_retries_lost_worker(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    env = dict(os.environ, PYTHONPATH=f"{root}:{root / 'src'}", RAY_USAGE_STATS_ENABLED="0")
    line = [sys.executable, str(Path(__file__).with_name("ray_run.py")), str(tmp_path)]
    done = subprocess.run(line, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "broken.parquet: cannot be read" in done.stdout


def test_ray_address_is_checked_before_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert ray_address() is None
    assert ray_address("local") is None
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        assert ray_address() == f"127.0.0.1:{port}"
        assert ray_address(f"ray://127.0.0.1:{port}") == f"ray://127.0.0.1:{port}"
    with pytest.raises(ExternalError, match=f"RAY_ADDRESS: 127.0.0.1:{port}: does not answer"):
        ray_address()
    for wrong in ("http://127.0.0.1:8265", "auto", "head", "head:", ":6379", "head:port"):
        with pytest.raises(InputError, match="is not the address of a Ray cluster"):
            ray_address(wrong)
