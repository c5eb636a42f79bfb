"""Dry runs by the cluster, and drift of objects, with a script in place of kubectl and sbatch."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpuyard.provision.apply.calls import KubernetesObject, plan_calls
from gpuyard.provision.apply.drift import differences_of, find_drift
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.preflight import dry_run
from gpuyard.provision.preflight.dry_run import kubectl_rows, sbatch_rows

from ..apply.runs import google_client

MANIFEST = Artefact(
    name="50-x.yaml",
    text="apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels:\n    managed-by: gpuyard\n"
    "    owner: ada\n    plan-hash: '0123456789abcdef'\ndata:\n  key: value\n",
)


def step() -> KubernetesObject:
    (found,), _ = plan_calls((MANIFEST,))
    assert isinstance(found, KubernetesObject)
    return found


def test_server_accepts_or_rejects_an_object(state: Path) -> None:
    (row,) = kubectl_rows((step(),), frozenset())
    assert (row.verdict, row.what) == ("ok", "accepted by the API server")
    assert "--dry-run=server" in (state / "calls").read_text()
    (state / "broken").touch()
    (row,) = kubectl_rows((step(),), frozenset())
    assert (row.verdict, row.what) == ("failed", "error: the server is away")


def test_object_of_a_cluster_that_does_not_exist_yet_is_unknown(state: Path) -> None:
    inside = KubernetesObject(
        file="50-x.yaml", api_version="v1", kind="ConfigMap", namespace="", name="x",
        body=step().body, context="", cluster_step="20-cluster.json",
    )  # fmt: skip
    (row,) = kubectl_rows((inside,), frozenset())
    assert row.verdict == "unknown"
    (row,) = kubectl_rows((inside,), frozenset({"20-cluster.json"}))
    assert row.verdict == "ok"


@pytest.mark.parametrize(
    ("code", "verdict", "what"),
    [
        (0, "ok", "Job 7 to start at 2026-11-20T10:00:00 using 2 processors"),
        (1, "failed", "allocation failure: Requested node configuration is not available"),
    ],
)
def test_sbatch_tests_the_script(
    code: int, verdict: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Artefact(name="80-job.sbatch", text="#!/bin/bash\n#SBATCH -N 2\nsrun x\n")
    monkeypatch.setenv("PATH", "")
    (row,) = sbatch_rows((script,), tmp_path)
    assert row.verdict == "unknown"
    stub = tmp_path / "sbatch"
    stub.write_text(
        f"#!/bin/sh\n[ \"$1\" = --test-only ] && echo 'sbatch: {what}' >&2\nexit {code}\n"
    )
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    (row,) = sbatch_rows((script,), tmp_path)
    assert row.verdict == verdict
    assert what in row.what


def test_a_controller_that_does_not_answer_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = tmp_path / "sbatch"
    stub.write_text("#!/bin/sh\nexec sleep 60\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    monkeypatch.setattr(dry_run, "SBATCH_TIMEOUT_S", 0.05)
    script = Artefact(name="80-job.sbatch", text="#!/bin/bash\nsrun x\n")
    (row,) = sbatch_rows((script,), tmp_path)
    assert row.verdict == "unknown"
    assert "does not answer" in row.what


def test_drift_of_an_object(state: Path) -> None:
    google = google_client("http://127.0.0.1:9")
    (missing,) = find_drift((step(),), google)
    assert missing.state == "missing"
    live = json.loads(step().body)
    live["metadata"]["uid"] = "set by the server"
    stored = state / ".ConfigMap.x.object"
    stored.write_text(json.dumps(live))
    (same,) = find_drift((step(),), google)
    assert same.state == "same"
    live["data"]["key"] = "other"
    stored.write_text(json.dumps(live))
    (changed,) = find_drift((step(),), google)
    assert [(row.path, row.rendered, row.live) for row in changed.differences] == [
        ("data.key", "value", "other")
    ]


@pytest.mark.parametrize(
    ("rendered", "live", "paths"),
    [
        ({"a": "8"}, {"a": 8, "b": 1}, []),
        ({"a": "projects/p/global/networks/n"}, {"a": "https://www.googleapis.com/compute/v1/projects/p/global/networks/n"}, []),
        ({"a": "us-central1-a"}, {"a": "https://x.googleapis.com/compute/v1/projects/p/zones/us-central1-a"}, []),
        ({"a": False, "b": {}, "c": []}, {}, []),
        ({"a": True}, {}, ["a"]),
        ({"a": [{"name": "x", "v": 1}]}, {"a": [{"name": "y", "v": 2}, {"name": "x", "v": 1}]}, []),
        ({"a": [{"name": "x", "v": 1}]}, {"a": [{"name": "x", "v": 2}]}, ["a[x].v"]),
        ({"a": ["x"]}, {"a": ["x", "y"]}, ["a"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a[1]"]),
    ],
)  # fmt: skip
def test_forms_of_the_server_are_no_drift(
    rendered: dict[str, object], live: dict[str, object], paths: list[str]
) -> None:
    assert [row.path for row in differences_of(rendered, live)] == paths  # type: ignore[arg-type]
