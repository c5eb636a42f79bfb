"""Faults of the servers at every call: a run gets over them, or the next one does."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from gpuyard.errors import RefusedError
from gpuyard.provision.apply import Applied, apply, destroy
from gpuyard.provision.artefact import Artefact

from ..fake.cloud import Cloud
from ..fake.server import Faults, Kind, serve
from .folders import render
from .vertex import LABELS, endpoint_files, job_files
from .works import work

LABEL = LABELS["plan-hash"]
PASSING: tuple[Kind, ...] = ("500", "503", "429", "timeout", "reset before", "reset after", "page")
FINAL: tuple[Kind, ...] = ("quota", "stock-out")


def run(folder: Path, url: str, files: tuple[Artefact, ...], label: str) -> Applied:
    """One apply."""
    with work(folder, url, files, label) as held:
        return apply(held)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Artefact, ...], str]:
    """One machine on Compute Engine with its network."""
    folder = render(tmp_path_factory.mktemp("sample"), "a2-highgpu-1g", "single-node", "spot")
    order = [row["name"] for row in json.loads((folder / "deployment.json").read_text())["files"]]
    names = [name for name in order if name[:2].isdigit()]
    files = tuple(Artefact(name=name, text=(folder / name).read_text()) for name in names)
    return files, json.loads(files[-1].text)["body"]["labels"]["plan-hash"]


@pytest.fixture(params=["machine", "jobs", "endpoint"])
def files(request: pytest.FixtureRequest, machine: Any) -> tuple[tuple[Artefact, ...], str]:
    """A deployment and its label."""
    known = {"machine": machine, "jobs": (job_files(), LABEL), "endpoint": (endpoint_files(), LABEL)}
    return known[request.param]


def alone(tmp_path: Path, files: tuple[Artefact, ...], label: str) -> tuple[set[str], int]:
    """What stands without a fault, and how many requests that takes."""
    with serve() as fake:
        place = tmp_path / "alone"
        place.mkdir()
        assert run(place, fake.url, files, label).failure is None
        return {shape(key) for key in fake.cloud.resources}, fake.faults.seen


def shape(path: str) -> str:
    """A path without the number that the server gave."""
    return "/".join("N" if word.isdigit() else word for word in path.split("/"))


@pytest.mark.parametrize("kind", PASSING)
def test_a_passing_fault_at_every_call_doubles_nothing(files: Any, kind: Kind, tmp_path: Path) -> None:
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
            with work(folder, fake.url, artefacts, label) as held:
                assert not [row for row in destroy(held) if row.end in ("failed", "kept")]
            assert fake.cloud.resources == {}


@pytest.mark.parametrize("kind", FINAL)
def test_a_refusal_at_every_post_stops_and_the_next_run_goes_on(files: Any, kind: Kind, tmp_path: Path) -> None:
    artefacts, label = files
    whole, _ = alone(tmp_path, artefacts, label)
    for number in range(len(artefacts)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with serve() as fake:
            fake.faults = Faults(at={number: kind}, verbs=("POST",))
            first = run(folder, fake.url, artefacts, label)
            assert first.failure is not None
            assert len(first.makings) == number + 1
            assert run(folder, fake.url, artefacts, label).failure is None
            assert {shape(key) for key in fake.cloud.resources} == whole
            assert max(Counter(shape(key) for key in fake.cloud.makings).values()) == 1


def test_a_stock_out_in_the_operation_needs_a_new_request_id(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve(Cloud(stockouts=1, is_late=True)) as fake:
        first = run(tmp_path, fake.url, artefacts, label)
        assert first.failure is not None
        assert "ZONE_RESOURCE_POOL_EXHAUSTED" in first.failure.why
        assert "another --zone" in first.failure.fix
        assert not [key for key in fake.cloud.resources if "/instances/" in key]
        assert run(tmp_path, fake.url, artefacts, label).failure is None
        assert [key for key in fake.cloud.resources if "/instances/" in key]


def test_rollback_takes_back_what_was_made_and_nothing_else(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve(Cloud(stockouts=1)) as fake:
        other = "compute/v1/projects/yard-1/global/networks/other"
        fake.cloud.resources[other] = {"name": "other"}
        with work(tmp_path, fake.url, artefacts, label) as held:
            applied = apply(held, rollback=True)
        assert applied.failure is not None
        assert {row.end for row in applied.rollback} <= {"removed", "was not there"}
        assert list(fake.cloud.resources) == [other]


def test_a_quota_is_told_with_what_helps(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve(Cloud(quotas={"networks": 0})) as fake:
        failure = run(tmp_path, fake.url, artefacts, label).failure
        assert failure is not None
        assert "quotaExceeded" in failure.why
        assert "ask for more quota" in failure.fix


def test_a_wrong_body_is_told_with_its_field(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    tree = json.loads(artefacts[-1].text)
    tree["body"]["networkInterfaces"][0]["nicType"] = "FAST"
    wrong = (*artefacts[:-1], Artefact(name=artefacts[-1].name, text=json.dumps(tree)))
    with serve() as fake:
        failure = run(tmp_path, fake.url, wrong, label).failure
        assert failure is not None
        assert "resource.networkInterfaces[0].nicType" in failure.why


def test_what_stands_and_is_not_ours_is_neither_taken_nor_removed(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    name = json.loads(artefacts[1].text)["body"]["name"]
    path = f"compute/v1/projects/yard-1/global/networks/{name}"
    for stamp in ("", "managed-by=gpuyard owner=bob plan-hash=ffffffffffffffff expires-at=2026-11-20t1400z"):
        folder = tmp_path / f"x{len(stamp)}"
        folder.mkdir()
        with serve() as fake:
            fake.cloud.resources[path] = {"name": name, "description": stamp}
            with pytest.raises(RefusedError, match="stands already"):
                run(folder, fake.url, artefacts, label)
            with work(folder, fake.url, artefacts, label) as held:
                ends = {row.step: row.end for row in destroy(held)}
            assert ends[artefacts[1].name] == "kept"
            assert list(fake.cloud.resources) == [path]


def test_the_same_plan_rendered_at_another_time_is_not_taken_over(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve() as fake:
        run(tmp_path, fake.url, artefacts, label)
        later = tuple(
            Artefact(name=row.name, text=row.text.replace("expires-at=20", "expires-at=21")) for row in artefacts[1:]
        )
        folder = tmp_path / "later"
        folder.mkdir()
        with pytest.raises(RefusedError, match="stands already"):
            run(folder, fake.url, later, label)


def test_destroy_works_without_the_journal(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve() as fake:
        run(tmp_path, fake.url, artefacts, label)
        (tmp_path / "apply.jsonl").unlink()
        with work(tmp_path, fake.url, artefacts, label) as held:
            assert {row.end for row in destroy(held)} == {"removed"}
        assert fake.cloud.resources == {}


def test_a_bucket_with_objects_is_kept(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve() as fake:
        run(tmp_path, fake.url, artefacts, label)
        bucket = next(key for key in fake.cloud.resources if key.startswith("storage"))
        fake.cloud.filled.add(bucket)
        with work(tmp_path, fake.url, artefacts, label) as held:
            kept = [row for row in destroy(held) if row.end == "kept"]
        assert [row.why for row in kept] == ["it holds objects"]
        assert list(fake.cloud.resources) == [bucket]


def test_what_vanished_is_made_again(machine: Any, tmp_path: Path) -> None:
    artefacts, label = machine
    with serve() as fake:
        run(tmp_path, fake.url, artefacts, label)
        before = copy.deepcopy(fake.cloud.resources)
        gone = next(key for key in fake.cloud.resources if "/instances/" in key)
        del fake.cloud.resources[gone]  # its lifetime ended
        again = run(tmp_path, fake.url, artefacts, label)
        assert [row.end for row in again.makings].count("made") == 1
        assert fake.cloud.resources == before


def test_every_kind_of_fault_is_tried() -> None:
    assert {*PASSING, *FINAL, "echo"} == set(get_args(Kind))
