"""Ray without a Ray: what is sent, what comes back, and how a token is found."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError
from gpuyard.jobs.engines.ray import cluster
from gpuyard.jobs.engines.ray.cluster import RayClusterAddress
from gpuyard.jobs.engines.ray.ray_engine import RayEngine, _client, _request, _status
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Task

TASK = Task(
    id="train-1", argv=("python", "x.py"), folder="/mnt/jobs", nodes=2, retries=1, grace_s=10.0
)


def test_ray_task_imports_only_ray() -> None:
    engine = RayEngine(spec=EngineSpec(name="ray", address="http://head:8265"))
    body = json.loads(json.dumps(_request(TASK, engine.handle(TASK), engine.spec)))
    assert body["submission_id"] == "train-1"
    sent = body["runtime_env"]["env_vars"]
    assert all(isinstance(value, str) for value in sent.values())
    assert int(sent["RAY_JOB_STOP_WAIT_TIME_S"]) > TASK.grace_s
    assert max(len(value) for value in sent.values()) < 100_000  # what one variable may hold
    compile(sent["GPUYARD_DRIVER"], "driver.py", "exec")
    assert "gpuyard." not in "".join(
        line for line in sent["GPUYARD_DRIVER"].splitlines() if "import" in line
    )
    job = json.loads(sent["GPUYARD_TASK"])
    assert job["task"]["nodes"] == 2
    compile(job["guard"], "guard.py", "exec")


@pytest.mark.parametrize(
    ("found", "state", "exit_code"),
    [
        ({"status": "PENDING", "start_time": 1000}, "pending", None),
        ({"status": "RUNNING", "start_time": 1000}, "running", None),
        (
            {"status": "SUCCEEDED", "start_time": 1000, "end_time": 2000, "driver_exit_code": 0},
            "done",
            0,
        ),
        (
            {
                "status": "FAILED",
                "driver_exit_code": 7,
                "message": "Job entrypoint command failed with exit code 7",
            },
            "failed",
            7,
        ),
        (
            {
                "status": "FAILED",
                "message": "Job supervisor actor died: node of the actor has died",
            },
            "lost",
            None,
        ),
        ({"status": "STOPPED", "message": "Job was intentionally stopped."}, "cancelled", None),
        ({"status": "SOMETHING"}, "lost", None),
    ],
)
def test_ray_states_map_to_task_states(found: Plain, state: str, exit_code: int | None) -> None:
    status = _status(found)
    assert (status.state, status.exit_code) == (state, exit_code)
    assert status.started_s in (None, 1.0)


def test_token_comes_from_file_environment_or_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    address = "http://head:8265"
    assert _client(RayClusterAddress(address=address)).authorization == ""
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("home\n")
    assert _client(RayClusterAddress(address=address)).authorization == "Bearer home"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "given")
    assert _client(RayClusterAddress(address=address)).authorization == "Bearer given"
    (tmp_path / "own").write_text("own")
    own = RayClusterAddress(address=address, token_file=str(tmp_path / "own"))
    assert _client(own).authorization == "Bearer own"
    with pytest.raises(ExternalError, match="name the token's file"):
        _client(RayClusterAddress(address=address, token_file=str(tmp_path / "none")))


def test_missing_ray_raises_error_with_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(cluster, "ray_folder", lambda: tmp_path)
    with pytest.raises(ExternalError, match=r"gpuyard\[ray\]"):
        cluster.local_cluster()


def test_unreachable_cluster_is_refused_and_local_cluster_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.retry.RetryPolicy.wait_s", lambda *_: 0.0)
    here = RayClusterAddress(address="http://127.0.0.1:1")
    for spec, state in (
        (EngineSpec(name="ray"), "lost"),
        (EngineSpec(name="ray", address=here.address), None),
    ):
        engine = RayEngine(spec=spec)
        handle = engine.handle(Task(id="t-1", argv=("x",), folder=str(tmp_path)))
        Path(handle.folder).mkdir(parents=True, exist_ok=True)
        (Path(handle.folder) / "cluster.json").write_text('{"address": "http://127.0.0.1:1"}')
        if state:
            assert engine.status(handle).state == state
        else:
            with pytest.raises(ExternalError, match="no response"):
                engine.status(handle)
