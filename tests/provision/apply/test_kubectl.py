"""Kubernetes objects by kubectl: a script on the path stands for it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from gpuyard.catalog import load_catalog
from gpuyard.cli import main
from gpuyard.provision.apply import apply, destroy
from gpuyard.provision.artefact import Artefact

from ..fake.server import serve
from .folders import fresh, render, runner
from .works import work

LABEL = "0123456789abcdef"
OBJECT = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels:\n    managed-by: gpuyard\n    owner: ada\n    plan-hash: '{LABEL}'\n"
# Keeps a file for each manifest that was applied, and what it was called with.
SCRIPT = """#!/bin/bash
set -eu
echo "$*" >>"$STATE/calls"
context=
case $1 in --context=*) context=${1#--context=}; shift;; esac
case "$1 ${2:-}" in
  "config get-contexts") cat "$STATE/contexts"; exit;;
esac
kept="$STATE/$(basename "$3")"
case $1 in
  apply) [ ! -e "$STATE/broken" ] || { echo "error: the server is away" >&2; exit 1; }; cp "$3" "$kept";;
  get) [ -e "$kept" ] || exit 0
       hash=$(sed -n "s/.*plan-hash: *['\\"]*\\([0-9a-f]*\\).*/\\1/p" "$kept" | head -n1)
       echo "{\\"items\\": [{\\"metadata\\": {\\"labels\\": {\\"managed-by\\": \\"gpuyard\\", \\"plan-hash\\": \\"$hash\\"}}}]}";;
  delete) rm -f "$kept";;
esac
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl on the path, and the folder of what it knows."""
    state = tmp_path / "state"
    binaries = tmp_path / "bin"
    state.mkdir()
    binaries.mkdir()
    (binaries / "kubectl").write_text(SCRIPT, encoding="utf-8")
    (binaries / "kubectl").chmod(0o755)
    (state / "contexts").write_text("mine\n", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{binaries}:{os.environ['PATH']}")
    monkeypatch.setenv("STATE", str(state))
    return state


def manifest(folder: Path) -> tuple[Artefact, ...]:
    """One file of objects."""
    folder.mkdir(exist_ok=True)
    (folder / "40-job.yaml").write_text(OBJECT, encoding="utf-8")
    return (Artefact(name="40-job.yaml", text=OBJECT),)


def test_objects_are_applied_once_found_and_removed(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    files = manifest(folder)
    with work(folder, "http://127.0.0.1:1", files, LABEL, context="mine") as held:
        assert [row.end for row in apply(held).makings] == ["made"]
        assert [row.end for row in apply(held).makings] == ["stood already"]
        assert (state / "40-job.yaml").exists()
        assert [row.end for row in destroy(held)] == ["removed"]
        assert not (state / "40-job.yaml").exists()
    calls = (state / "calls").read_text().splitlines()
    assert f"--context=mine apply -f {folder}/40-job.yaml" in calls
    assert sum(" apply " in call for call in calls) == 1


def test_without_the_context_the_step_is_left_to_hands(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    files = manifest(folder)
    with work(folder, "http://127.0.0.1:1", files, LABEL, context="other") as held:
        applied = apply(held)
    assert applied.remaining == ("40-job.yaml",)
    assert applied.gap == "kubectl knows no context other"
    assert not (state / "40-job.yaml").exists()


def test_without_kubectl_the_step_is_left_to_hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    files = manifest(tmp_path / "deploy")
    with work(tmp_path / "deploy", "http://127.0.0.1:1", files, LABEL) as held:
        assert apply(held).gap == "kubectl is not installed"


def test_what_kubectl_refuses_is_told(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    files = manifest(folder)
    (state / "broken").touch()
    with work(folder, "http://127.0.0.1:1", files, LABEL, context="mine") as held:
        failure = apply(held).failure
        assert failure is not None
        assert "the server is away" in failure.why
        (state / "broken").unlink()
        assert apply(held).failure is None


def test_bought_machines_need_no_account_and_no_cap(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = next(row.name for row in load_catalog().machines if row.provider == "onprem" and row.multi_host)
    folder = render(tmp_path / "sample", machine, "multi-node", None, "kubernetes", project="my-project")
    monkeypatch.setitem(sys.modules, "google.auth", None)
    monkeypatch.delenv("GPUYARD_ENDPOINT", raising=False)
    assert main(["provision", str(folder), "--apply", "--yes", "--context", "mine"]) == 0
    assert "nothing is billed" in capsys.readouterr().out
    assert list(state.glob("*.yaml"))
    assert main(["provision", str(folder), "--destroy", "--yes", "--context", "mine"]) == 0
    assert not list(state.glob("*.yaml"))


def test_a_cluster_whose_making_failed_is_removed_and_made_again(tmp_path: Path) -> None:
    folder = render(tmp_path / "sample", "a3-ultragpu-8g", "multi-node", "flex-start", "gke")
    with runner() as forks, serve() as fake:
        told = forks.run("apply", fresh(folder, tmp_path / "whole"), fake.url)
        accepted = [number for number, name in enumerate(told["names"]) if name == "before accepted"]
    with runner() as forks, serve() as fake:
        forks.run("apply", folder, fake.url, kill_at=accepted[-2])  # the last is the node pool
        cluster = next(key for key in fake.cloud.resources if re.search(r"/clusters/[^/]+$", key))
        fake.cloud.resources[cluster]["status"] = "ERROR"
        assert not forks.run("apply", folder, fake.url)["error"]
        assert fake.cloud.makings.count(cluster) == 2
        fake.cloud.resources[cluster]["status"] = "ERROR"  # it broke after it had stood: people look at it first
        assert not forks.run("apply", folder, fake.url)["error"]
        assert fake.cloud.makings.count(cluster) == 2


def test_a_cluster_and_its_objects_killed_at_every_few_points(state: Path, tmp_path: Path) -> None:
    source = render(tmp_path / "sample", "a3-ultragpu-8g", "multi-node", "flex-start", "gke")
    with runner() as forks, serve() as fake:
        told = forks.run("apply", fresh(source, tmp_path / "whole"), fake.url)
        context = told["gap"].split()[-1]
        assert context.startswith("gke_yard-1_us-central1")
        (state / "contexts").write_text(context, encoding="utf-8")
        told = forks.run("apply", tmp_path / "whole", fake.url)
        assert not told["error"]
        assert not told["gap"]
        whole, objects = set(fake.cloud.resources), {path.name for path in state.glob("*.yaml")}
        assert objects
        last = 190
    for point in range(150, last, 3):  # the end of the cluster and all of its objects
        for path in state.glob("*.yaml"):
            path.unlink()
        with runner() as forks, serve() as fake:
            folder = fresh(source, tmp_path / "work")
            forks.run("apply", folder, fake.url, kill_at=point)
            assert not forks.run("apply", folder, fake.url)["error"]
            assert set(fake.cloud.resources) == whole
            assert {path.name for path in state.glob("*.yaml")} == objects
            assert not forks.run("destroy", folder, fake.url)["error"]
            assert fake.cloud.resources == {}
