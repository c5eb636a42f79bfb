"""Apply with server faults at every call: the run recovers, or the next one resumes."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from gpuyard.errors import ExternalError
from gpuyard.provision.apply.destroy import destroy
from gpuyard.provision.apply.execute import ApplyResult, apply
from gpuyard.provision.artefact import Artefact

from ..fake.cloud import Cloud
from ..fake.server import Faults, Kind, serve
from .folders import render
from .requests import LABELS, endpoint_files, job_files
from .runs import apply_run

LABEL = LABELS["plan-hash"]
PASSING: tuple[Kind, ...] = ("500", "503", "429", "timeout", "reset before", "reset after", "page")
FINAL: tuple[Kind, ...] = ("quota", "stock-out")


def run(folder: Path, url: str, files: tuple[Artefact, ...], label: str) -> ApplyResult:
    """Run apply once."""
    with apply_run(folder, url, files, label) as held:
        return apply(held)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Artefact, ...], str]:
    """Files of one Compute Engine machine with its network."""
    folder = render(tmp_path_factory.mktemp("sample"), "a2-highgpu-1g", "single-node", "spot")
    order = [row["name"] for row in json.loads((folder / "deployment.json").read_text())["files"]]
    names = [name for name in order if name[:2].isdigit()]
    files = tuple(Artefact(name=name, text=(folder / name).read_text()) for name in names)
    return files, json.loads(files[-1].text)["body"]["labels"]["plan-hash"]


@pytest.fixture(params=["machine", "jobs", "endpoint"])
def files(request: pytest.FixtureRequest, machine: Any) -> tuple[tuple[Artefact, ...], str]:
    """Files and plan hash of a deployment."""
    known = {
        "machine": machine,
        "jobs": (job_files(), LABEL),
        "endpoint": (endpoint_files(), LABEL),
    }
    return known[request.param]


def alone(tmp_path: Path, files: tuple[Artefact, ...], label: str) -> tuple[set[str], int]:
    """Return the resources of a fault-free apply, and its number of requests."""
    with serve() as fake:
        place = tmp_path / "alone"
        place.mkdir()
        assert run(place, fake.url, files, label).failure is None
        return {shape(key) for key in fake.cloud.resources}, fake.faults.seen


def shape(path: str) -> str:
    """Return a path without server-assigned numbers."""
    return "/".join("N" if word.isdigit() else word for word in path.split("/"))


@pytest.mark.parametrize("kind", PASSING)
def test_apply_creates_nothing_twice_when_any_call_fails_transiently(
    files: Any, kind: Kind, tmp_path: Path
) -> None:
    artefacts, label = files
    whole, requests = alone(tmp_path, artefacts, label)
    for number in range(requests):
        folder = tmp_path / str(number)
        folder.mkdir()
        with serve(Cloud(is_late=bool(number % 2))) as fake:
            fake.faults = Faults(at={number: kind})
            assert run(folder, fake.url, artefacts, label).failure is None, number
            assert {shape(key) for key in fake.cloud.resources} == whole
            assert max(Counter(shape(key) for key in fake.cloud.makings).values()) == 1, number
            with apply_run(folder, fake.url, artefacts, label) as held:
                assert not [row for row in destroy(held) if row.outcome in ("failed", "retained")]
            assert fake.cloud.resources == {}


@pytest.mark.parametrize("kind", FINAL)
def test_apply_stops_at_rejected_call_and_next_run_resumes(
    files: Any, kind: Kind, tmp_path: Path
) -> None:
    artefacts, label = files
    whole, _ = alone(tmp_path, artefacts, label)
    for number in range(len(artefacts)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with serve() as fake:
            fake.faults = Faults(at={number: kind}, verbs=("POST",))
            first = run(folder, fake.url, artefacts, label)
            assert first.failure is not None
            assert len(first.results) == number + 1
            assert run(folder, fake.url, artefacts, label).failure is None
            assert {shape(key) for key in fake.cloud.resources} == whole
            assert max(Counter(shape(key) for key in fake.cloud.makings).values()) == 1


def test_retry_after_stockout_uses_new_request_id(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve(Cloud(stockouts=1, is_late=True)) as fake:
        first = run(tmp_path, fake.url, artefacts, label)
        assert first.failure is not None
        assert "ZONE_RESOURCE_POOL_EXHAUSTED" in first.failure.why
        assert "another --zone" in first.failure.fix
        assert not [key for key in fake.cloud.resources if "/instances/" in key]
        assert run(tmp_path, fake.url, artefacts, label).failure is None
        assert [key for key in fake.cloud.resources if "/instances/" in key]


def test_rollback_deletes_only_created_resources(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve(Cloud(stockouts=1)) as fake:
        other = "compute/v1/projects/yard-1/global/networks/other"
        fake.cloud.resources[other] = {"name": "other"}
        with apply_run(tmp_path, fake.url, artefacts, label) as held:
            applied = apply(held, rollback=True)
        assert applied.failure is not None
        assert {row.outcome for row in applied.rollback} <= {"deleted", "did not exist"}
        assert list(fake.cloud.resources) == [other]


def test_quota_error_suggests_requesting_quota(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve(Cloud(quotas={"networks": 0})) as fake:
        failure = run(tmp_path, fake.url, artefacts, label).failure
        assert failure is not None
        assert "quotaExceeded" in failure.why
        assert "request more quota" in failure.fix


def test_rejected_body_is_reported_with_its_field(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    tree = json.loads(artefacts[-1].text)
    tree["body"]["networkInterfaces"][0]["nicType"] = "FAST"
    wrong = (*artefacts[:-1], Artefact(name=artefacts[-1].name, text=json.dumps(tree)))
    with serve() as fake:
        failure = run(tmp_path, fake.url, wrong, label).failure
        assert failure is not None
        assert "resource.networkInterfaces[0].nicType" in failure.why


def test_resource_of_another_owner_is_neither_adopted_nor_deleted(
    machine: Any, tmp_path: Path
) -> None:
    artefacts, label = machine
    name = json.loads(artefacts[1].text)["body"]["name"]
    path = f"compute/v1/projects/yard-1/global/networks/{name}"
    for stamp in (
        "",
        "managed-by=gpuyard owner=bob plan-hash=ffffffffffffffff expires-at=2026-11-20t1400z",
    ):
        folder = tmp_path / f"x{len(stamp)}"
        folder.mkdir()
        with serve() as fake:
            fake.cloud.resources[path] = {"name": name, "description": stamp}
            with pytest.raises(ExternalError, match="already exists"):
                run(folder, fake.url, artefacts, label)
            with apply_run(folder, fake.url, artefacts, label) as held:
                ends = {row.step: row.outcome for row in destroy(held)}
            assert ends[artefacts[1].name] == "retained"
            assert list(fake.cloud.resources) == [path]


def test_resource_of_another_rendering_of_the_plan_is_not_adopted(
    machine: Any, tmp_path: Path
) -> None:
    artefacts, label = machine
    with serve() as fake:
        run(tmp_path, fake.url, artefacts, label)
        later = tuple(
            Artefact(name=row.name, text=row.text.replace("expires-at=20", "expires-at=21"))
            for row in artefacts[1:]
        )
        folder = tmp_path / "later"
        folder.mkdir()
        with pytest.raises(ExternalError, match="already exists"):
            run(folder, fake.url, later, label)


def test_destroy_retains_what_the_journal_does_not_record(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve() as fake:
        run(tmp_path, fake.url, artefacts, label)
        whole = copy.deepcopy(fake.cloud.resources)
        (tmp_path / "copy").mkdir()  # of the rendered files, without the journal
        with apply_run(tmp_path / "copy", fake.url, artefacts, label) as held:
            rows = destroy(held)
        assert {row.outcome for row in rows} == {"retained"}
        assert all(row.fix.startswith("gpuyard sweep --project yard-1") for row in rows)
        assert fake.cloud.resources == whole


def test_destroy_retains_bucket_that_is_not_empty(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve() as fake:
        run(tmp_path, fake.url, artefacts, label)
        bucket = next(key for key in fake.cloud.resources if key.startswith("storage"))
        fake.cloud.filled.add(bucket)
        with apply_run(tmp_path, fake.url, artefacts, label) as held:
            retained = [row for row in destroy(held) if row.outcome == "retained"]
        assert [row.why for row in retained] == ["the bucket is not empty"]
        assert list(fake.cloud.resources) == [bucket]


def test_apply_creates_a_vanished_resource_again(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve() as fake:
        run(tmp_path, fake.url, artefacts, label)
        before = copy.deepcopy(fake.cloud.resources)
        gone = next(key for key in fake.cloud.resources if "/instances/" in key)
        del fake.cloud.resources[gone]  # its TTL expired
        again = run(tmp_path, fake.url, artefacts, label)
        assert [row.outcome for row in again.results].count("created") == 1
        assert fake.cloud.resources == before


def test_every_fault_kind_is_covered() -> None:
    assert {*PASSING, *FINAL, "echo"} == set(get_args(Kind))
