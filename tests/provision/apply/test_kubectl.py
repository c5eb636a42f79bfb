"""kubectl client, with a shell script in place of kubectl."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.cli.main import main
from gpuyard.errors import ExternalError, InputError
from gpuyard.provision.apply.calls import plan_calls
from gpuyard.provision.apply.destroy import destroy
from gpuyard.provision.apply.execute import apply
from gpuyard.provision.artefact import Artefact

from ..fake.server import serve
from .folders import fresh, render, runner
from .runs import apply_run

LABEL = "0123456789abcdef"
OBJECT = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels:\n    managed-by: gpuyard\n    owner: ada\n    plan-hash: '{LABEL}'\n"


def manifest(folder: Path) -> tuple[Artefact, ...]:
    """Write and return one manifest."""
    folder.mkdir(exist_ok=True)
    (folder / "40-job.yaml").write_text(OBJECT, encoding="utf-8")
    return (Artefact(name="40-job.yaml", text=OBJECT),)


def test_manifest_is_applied_once_then_deleted(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    files = manifest(folder)
    with apply_run(folder, "http://127.0.0.1:1", files, LABEL, context="mine") as held:
        assert [row.outcome for row in apply(held).results] == ["created"]
        assert [row.outcome for row in apply(held).results] == ["already existed"]
        assert (state / ".ConfigMap.x.object").exists()
        assert [row.outcome for row in destroy(held)] == ["deleted"]
        assert not (state / ".ConfigMap.x.object").exists()
    calls = (state / "calls").read_text().splitlines()
    assert "--context=mine apply -f -" in calls
    assert "--context=mine delete --ignore-not-found --wait=true -- ConfigMap.v1. x" in calls
    assert sum(" apply " in call for call in calls) == 1


def test_object_of_another_owner_is_neither_changed_nor_deleted(
    state: Path, tmp_path: Path
) -> None:
    mine = manifest(tmp_path / "deploy")[0].text
    foreign = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "production"}}
    stored = state / ".Namespace.production.object"
    stored.write_text(json.dumps(foreign))
    labelled = OBJECT.replace("ConfigMap", "Namespace").replace("name: x", "name: production")
    # Its own object comes first and carries our labels; the live namespace does not.
    both = (Artefact(name="40-job.yaml", text=f"{mine}---\n{labelled}"),)
    with apply_run(tmp_path / "deploy", "http://127.0.0.1:1", both, LABEL, context="mine") as held:
        with pytest.raises(ExternalError, match="belongs to no gpuyard plan"):
            apply(held)
        assert held.journal.records("40-job.yaml: v1 ConfigMap x", "v1 ConfigMap x")
        assert [row.outcome for row in destroy(held)] == ["retained", "deleted"]
    assert json.loads(stored.read_text()) == foreign
    calls = (state / "calls").read_text().splitlines()
    assert [call for call in calls if " delete " in call and "Namespace" in call] == []
    assert not [call for call in calls if " delete " in call and " -f" in call]


def test_object_that_lost_its_label_or_is_not_in_the_journal_is_retained(
    state: Path, tmp_path: Path
) -> None:
    files = manifest(tmp_path / "deploy")
    stored = state / ".ConfigMap.x.object"
    with apply_run(tmp_path / "deploy", "http://127.0.0.1:1", files, LABEL, context="mine") as held:
        apply(held)
        ours = stored.read_text()
        stored.write_text(ours.replace(LABEL, "f" * 16))
        assert [row.outcome for row in destroy(held)] == ["retained"]
        stored.write_text(ours)
    (tmp_path / "copy").mkdir()  # of the rendered files, without the journal
    with apply_run(tmp_path / "copy", "http://127.0.0.1:1", files, LABEL, context="mine") as held:
        assert [row.outcome for row in destroy(held)] == ["retained"]
    assert stored.exists()


def test_object_without_labels_is_input_error() -> None:
    bare = OBJECT.replace("managed-by: gpuyard", "app: y")
    with pytest.raises(InputError, match="ConfigMap x has no ownership labels"):
        plan_calls([Artefact(name="40-job.yaml", text=f"{OBJECT}---\n{bare}")])


def test_manifest_remains_when_kubectl_context_is_missing(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    files = manifest(folder)
    with apply_run(folder, "http://127.0.0.1:1", files, LABEL, context="other") as held:
        applied = apply(held)
    assert applied.remaining == ("40-job.yaml: v1 ConfigMap x",)
    assert applied.missing_prerequisite == "kubectl has no context other"
    assert not (state / ".ConfigMap.x.object").exists()


def test_manifest_remains_when_kubectl_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    files = manifest(tmp_path / "deploy")
    with apply_run(tmp_path / "deploy", "http://127.0.0.1:1", files, LABEL) as held:
        assert apply(held).missing_prerequisite == "kubectl is not installed"


def test_kubectl_error_is_reported_and_apply_resumes_after_fix(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    files = manifest(folder)
    (state / "broken").touch()
    with apply_run(folder, "http://127.0.0.1:1", files, LABEL, context="mine") as held:
        failure = apply(held).failure
        assert failure is not None
        assert "the server is away" in failure.why
        (state / "broken").unlink()
        assert apply(held).failure is None


def test_onprem_apply_needs_no_credentials_and_no_max_cost(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = next(
        row.name for row in load_catalog().machines if row.provider == "onprem" and row.multi_host
    )
    folder = render(
        tmp_path / "sample", machine, "multi-node", None, "kubernetes", project="my-project"
    )
    monkeypatch.setitem(sys.modules, "google.auth", None)
    monkeypatch.delenv("GPUYARD_ENDPOINT", raising=False)
    assert main(["provision", str(folder), "--apply", "--yes", "--context", "mine"]) == 0
    assert "nothing is billed" in capsys.readouterr().out
    assert list(state.glob("*.object"))
    assert main(["provision", str(folder), "--destroy", "--yes", "--context", "mine"]) == 0
    assert not list(state.glob("*.object"))


def test_partial_cluster_is_deleted_and_created_again(tmp_path: Path) -> None:
    folder = render(tmp_path / "sample", "a3-ultragpu-8g", "multi-node", "flex-start", "gke")
    with runner() as forks, serve() as fake:
        result = forks.run("apply", fresh(folder, tmp_path / "whole"), fake.url)
        accepted = [
            number for number, name in enumerate(result["names"]) if name == "before accepted"
        ]
    with runner() as forks, serve() as fake:
        forks.run("apply", folder, fake.url, kill_at=accepted[-2])  # the last is the node pool
        cluster = next(key for key in fake.cloud.resources if re.search(r"/clusters/[^/]+$", key))
        fake.cloud.resources[cluster]["status"] = "ERROR"
        assert not forks.run("apply", folder, fake.url)["error"]
        assert fake.cloud.makings.count(cluster) == 2
        fake.cloud.resources[cluster]["status"] = (
            "ERROR"  # it failed after creation: left for a person to inspect
        )
        assert not forks.run("apply", folder, fake.url)["error"]
        assert fake.cloud.makings.count(cluster) == 2


def test_killed_apply_of_cluster_and_manifests_resumes(state: Path, tmp_path: Path) -> None:
    source = render(tmp_path / "sample", "a3-ultragpu-8g", "multi-node", "flex-start", "gke")
    with runner() as forks, serve() as fake:
        result = forks.run("apply", fresh(source, tmp_path / "whole"), fake.url)
        context = result["gap"].split()[-1]
        assert context.startswith("gke_yard-1_us-central1")
        (state / "contexts").write_text(context, encoding="utf-8")
        result = forks.run("apply", tmp_path / "whole", fake.url)
        assert not result["error"]
        assert not result["gap"]
        whole, objects = set(fake.cloud.resources), {path.name for path in state.glob("*.object")}
        assert objects
        last = 190
    for point in range(150, last, 3):  # the end of the cluster and all its manifests
        for path in state.glob("*.object"):
            path.unlink()
        with runner() as forks, serve() as fake:
            folder = fresh(source, tmp_path / "work")
            forks.run("apply", folder, fake.url, kill_at=point)
            assert not forks.run("apply", folder, fake.url)["error"]
            assert set(fake.cloud.resources) == whole
            assert {path.name for path in state.glob("*.object")} == objects
            assert not forks.run("destroy", folder, fake.url)["error"]
            assert fake.cloud.resources == {}
