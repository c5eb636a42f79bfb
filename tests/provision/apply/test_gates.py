"""What keeps a call from being made: changed files, unknown or old prices, a bill above the cap, no end."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuyard.app.apply import World, apply_folder, prepare
from gpuyard.errors import InputError
from gpuyard.provision.apply import Target, check_gates, plan_calls
from gpuyard.provision.apply.gates import PRICE_DAYS, lifetime_problems
from gpuyard.provision.artefact import Artefact

from ..fake.server import serve
from .folders import fresh, render
from .vertex import job_files, without_labels
from .works import QuickClock, hand


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(tmp_path_factory.mktemp("sample"), "a2-highgpu-1g", "single-node", "spot")


@pytest.fixture
def folder(rendered: Path, tmp_path: Path) -> Path:
    return fresh(rendered, tmp_path / "deploy")


def gates(target: Target, most_usd: float | None = 1e9, now_s: float | None = None, **more: Any) -> None:
    """The gates for a target, applied a minute after it was rendered."""
    steps, _ = plan_calls(target.artefacts)
    now = target.deployment.settings.made_s + 60 if now_s is None else now_s
    check_gates(target, steps, now, most_usd, **{"accept_stale": False, "is_resumed": False, **more})


def test_a_fresh_folder_passes(folder: Path) -> None:
    gates(prepare(folder).target)
    gates(prepare(folder / "deployment.json").target)


@pytest.mark.parametrize("name", ["10-net-0.json", "50-instance.json", "blueprint.json", "README.md", "call.sh"])
def test_a_changed_or_missing_file_is_named(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text(path.read_text() + " ", encoding="utf-8")
    with pytest.raises(InputError, match=f"{name}: was changed"):
        prepare(folder)
    path.unlink()
    with pytest.raises(InputError, match=f"{name}: is missing"):
        prepare(folder)


def test_a_file_that_was_added_is_named_and_a_note_is_let_be(folder: Path) -> None:
    (folder / "notes.md").write_text("mine", encoding="utf-8")
    prepare(folder)
    (folder / "55-more.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"55-more.json: was not rendered"):
        prepare(folder)


def test_a_file_and_its_hash_changed_together_are_found_by_rendering_again(folder: Path) -> None:
    path, seal = folder / "50-instance.json", folder / "deployment.json"
    path.write_text(path.read_text().replace("a2-highgpu-1g", "a2-highgpu-8g"), encoding="utf-8")
    tree = json.loads(seal.read_text())
    for row in tree["files"]:
        if row["name"] == path.name:
            row["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    seal.write_text(json.dumps(tree), encoding="utf-8")
    with serve() as fake:
        world = World(endpoint=hand(fake.url).endpoint, clock=QuickClock(now=tree["settings"]["made_s"] + 60))
        with pytest.raises(InputError, match=r"50-instance.json: is not what its blueprint gives"):
            apply_folder(prepare(folder), world, most_usd=1e9)
        assert fake.cloud.log == []


@pytest.mark.parametrize(
    "change", [("exposure", "largest_usd", 1.0), ("exposure", "ttl_s", 60.0), ("settings", "ttl_s", 60.0)]
)
def test_a_smaller_bill_cannot_be_written_into_the_seal(folder: Path, change: tuple[str, str, float]) -> None:
    seal = folder / "deployment.json"
    tree = json.loads(seal.read_text())
    tree[change[0]][change[1]] = change[2]
    seal.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(InputError, match="was changed after it was written"):
        prepare(folder)


def test_the_cap_is_kept(folder: Path) -> None:
    target = prepare(folder).target
    largest = target.exposure.largest_usd
    assert largest is not None
    assert largest == pytest.approx(target.exposure.usd_per_hour * target.place.ttl_s / 3600)  # type: ignore[operator]
    gates(target, largest)
    with pytest.raises(InputError, match=r"less than the largest possible bill[\s\S]*--ttl"):
        gates(target, largest - 0.01)
    with pytest.raises(InputError, match="--max-cost"):
        gates(target, None)


def test_old_prices_are_refused_unless_they_are_accepted(folder: Path) -> None:
    target = prepare(folder).target
    today = datetime.date.fromtimestamp(target.deployment.settings.made_s)
    for days, passes in ((PRICE_DAYS - 1, True), (PRICE_DAYS + 2, False)):
        old = replace(target, blueprint=replace(target.blueprint, priced=today - datetime.timedelta(days=days)))
        gates(old, accept_stale=True)
        if passes:
            gates(old)
        else:
            with pytest.raises(InputError, match="--accept-stale"):
                gates(old)


def test_no_price_is_no_bound(folder: Path) -> None:
    target = prepare(folder).target
    unknown = replace(target.deployment.exposure, usd_per_hour=None, expected_usd=None, largest_usd=None)
    with pytest.raises(InputError, match="no price of a2-highgpu-1g"):
        gates(replace(target, deployment=replace(target.deployment, exposure=unknown)))


def test_what_was_rendered_long_ago_is_only_gone_on_with(folder: Path) -> None:
    target = prepare(folder).target
    later = target.deployment.settings.made_s + 2 * 86_400
    gates(target, now_s=later, is_resumed=True)
    with pytest.raises(InputError, match="was rendered on"):
        gates(target, now_s=later)


def test_the_placeholder_of_the_project_is_refused(tmp_path: Path) -> None:
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot", project="my-project")
    with pytest.raises(InputError, match="--project NAME"):
        gates(prepare(folder).target)


def test_the_placeholder_of_the_reservation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the reservation is still my-reservation"):
        gates(prepare(render(tmp_path / "a", "a3-highgpu-8g", "single-node", "reservation")).target)
    named = render(tmp_path / "b", "a3-highgpu-8g", "single-node", "reservation", reservation="ours")
    gates(prepare(named).target)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda body: body["scheduling"].pop("maxRunDuration"), "the server would never end it"),
        (lambda body: body["scheduling"]["maxRunDuration"].update(seconds="99999999"), "longer than the lifetime"),
        (lambda body: body["scheduling"].update(instanceTerminationAction="STOP"), "is not DELETE"),
    ],
)  # fmt: skip
def test_a_machine_without_an_end_on_the_server_is_refused(folder: Path, change: Any, told: str) -> None:
    target = prepare(folder).target
    tree = json.loads(target.artefacts[6].text)
    assert tree["method"] == "compute.instances.insert"
    change(tree["body"])
    steps, _ = plan_calls([Artefact(name="50-instance.json", text=json.dumps(tree))])
    assert [problem.what for problem in lifetime_problems(target, steps) if told in problem.what]


def test_a_request_without_labels_is_refused() -> None:
    with pytest.raises(InputError, match="carries no labels"):
        plan_calls([without_labels(row) for row in job_files()])
