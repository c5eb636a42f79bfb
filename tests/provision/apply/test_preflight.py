"""Preflight checks: changed files, unknown or stale prices, cost above the maximum, missing TTL."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuyard.app.apply import ExternalServices, apply_folder, prepare
from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.provision.apply.calls import plan_calls
from gpuyard.provision.apply.journal import Journal, JournalEntry
from gpuyard.provision.apply.preflight import MAX_PRICE_AGE_DAYS, check_preflight, ttl_problems
from gpuyard.provision.apply.rendered_deployment import RenderedDeployment
from gpuyard.provision.apply.signing import created_key, signature
from gpuyard.provision.artefact import Artefact

from ..fake.server import serve
from .folders import fresh, render
from .requests import job_files, without_labels
from .runs import QuickClock, google_client


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(tmp_path_factory.mktemp("sample"), "a2-highgpu-1g", "single-node", "spot")


@pytest.fixture
def folder(rendered: Path, tmp_path: Path) -> Path:
    return fresh(rendered, tmp_path / "deploy")


def preflight(
    target: RenderedDeployment,
    most_usd: float | None = 1e9,
    now_s: float | None = None,
    **more: Any,
) -> None:
    """Run the preflight checks one minute after rendering."""
    steps, _ = plan_calls(target.artefacts)
    now = target.deployment.settings.rendered_s + 60 if now_s is None else now_s
    check_preflight(target, steps, now, most_usd, **{"accept_stale": False, **more})


def test_preflight_passes_for_fresh_rendering(folder: Path) -> None:
    preflight(prepare(folder).target)
    preflight(prepare(folder / "deployment.json").target)


@pytest.mark.parametrize(
    "name", ["10-net-0.json", "50-instance.json", "blueprint.json", "README.md", "call.sh"]
)
def test_changed_or_missing_file_raises_input_error(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text(path.read_text() + " ", encoding="utf-8")
    with pytest.raises(InputError, match=f"{name}: was changed"):
        prepare(folder)
    path.unlink()
    with pytest.raises(InputError, match=f"{name}: is missing"):
        prepare(folder)


def test_added_numbered_file_raises_input_error_but_notes_are_allowed(folder: Path) -> None:
    (folder / "notes.md").write_text("mine", encoding="utf-8")
    prepare(folder)
    (folder / "55-more.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"55-more.json: does not belong"):
        prepare(folder)


def tamper(folder: Path) -> dict[str, Any]:
    """Change a file and its checksum in deployment.json; return the deployment."""
    path, seal = folder / "50-instance.json", folder / "deployment.json"
    path.write_text(path.read_text().replace("a2-highgpu-1g", "a2-highgpu-8g"), encoding="utf-8")
    tree: dict[str, Any] = json.loads(seal.read_text())
    for row in tree["files"]:
        if row["name"] == path.name:
            row["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    seal.write_text(json.dumps(tree), encoding="utf-8")
    return tree


def test_file_changed_with_its_checksum_fails_the_signature(folder: Path) -> None:
    tamper(folder)
    with pytest.raises(InputError, match=r"deployment.sig: does not match"):
        prepare(folder)


@pytest.mark.parametrize("with_journal", [False, True])
def test_signed_folder_that_renders_differently_is_not_applied_or_resumed(
    folder: Path, with_journal: bool
) -> None:
    tree = tamper(folder)
    key = created_key()
    text = signature((folder / "deployment.json").read_text(), key).text
    (folder / "deployment.sig").write_text(text, encoding="utf-8")
    if with_journal:
        journal = Journal.open(folder / "apply.jsonl", key)
        journal.append(JournalEntry(event="begin", deployment=prepare(folder).target.hash))
        journal.append(JournalEntry(event="intent", step="10-net-0.json"))
        journal.close()
        assert prepare(folder).is_resumed
    with serve() as fake:
        world = ExternalServices(
            endpoint=google_client(fake.url).transport,
            clock=QuickClock(now=tree["settings"]["rendered_s"] + 60),
        )
        with pytest.raises(InputError, match=r"50-instance.json: differs from a fresh rendering"):
            apply_folder(prepare(folder), world, most_usd=1e9, catalog=load_catalog())
        assert fake.cloud.log == []


@pytest.mark.parametrize(
    "change",
    [("cost_bound", "max_usd", 1.0), ("cost_bound", "ttl_s", 60.0), ("settings", "ttl_s", 60.0)],
)
def test_changed_cost_or_ttl_in_deployment_file_raises_input_error(
    folder: Path, change: tuple[str, str, float]
) -> None:
    seal = folder / "deployment.json"
    tree = json.loads(seal.read_text())
    tree[change[0]][change[1]] = change[2]
    seal.write_text(json.dumps(tree), encoding="utf-8")
    text = signature(seal.read_text(), created_key()).text
    (folder / "deployment.sig").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="was changed after rendering"):
        prepare(folder)


def test_preflight_rejects_cost_above_max_cost(folder: Path) -> None:
    target = prepare(folder).target
    largest = target.cost_bound.max_usd
    assert largest is not None
    assert largest == pytest.approx(target.cost_bound.usd_per_hour * target.settings.ttl_s / 3600)  # type: ignore[operator]
    preflight(target, largest)
    with pytest.raises(InputError, match=r"less than the maximum cost[\s\S]*--ttl"):
        preflight(target, largest - 0.01)
    with pytest.raises(InputError, match="--max-cost"):
        preflight(target, None)


def test_preflight_rejects_stale_prices_unless_accepted(folder: Path) -> None:
    target = prepare(folder).target
    today = datetime.date.fromtimestamp(target.deployment.settings.rendered_s)
    for days, passes in ((MAX_PRICE_AGE_DAYS - 1, True), (MAX_PRICE_AGE_DAYS + 2, False)):
        old = replace(
            target,
            blueprint=replace(target.blueprint, priced=today - datetime.timedelta(days=days)),
        )
        preflight(old, accept_stale=True)
        if passes:
            preflight(old)
        else:
            with pytest.raises(InputError, match="--accept-stale"):
                preflight(old)


def test_preflight_rejects_unknown_price(folder: Path) -> None:
    target = prepare(folder).target
    unknown = replace(
        target.deployment.cost_bound, usd_per_hour=None, expected_usd=None, max_usd=None
    )
    with pytest.raises(InputError, match="no price of a2-highgpu-1g"):
        preflight(replace(target, deployment=replace(target.deployment, cost_bound=unknown)))


def test_preflight_rejects_old_rendering(folder: Path) -> None:
    target = prepare(folder).target
    later = target.deployment.settings.rendered_s + 2 * 86_400
    with pytest.raises(InputError, match="rendered on"):
        preflight(target, now_s=later)


def test_preflight_rejects_placeholder_project(tmp_path: Path) -> None:
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot", project="my-project")
    with pytest.raises(InputError, match="--project NAME"):
        preflight(prepare(folder).target)


def test_preflight_rejects_placeholder_reservation(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the reservation is still the placeholder my-reservation"):
        preflight(
            prepare(render(tmp_path / "a", "a3-highgpu-8g", "single-node", "reservation")).target
        )
    named = render(
        tmp_path / "b", "a3-highgpu-8g", "single-node", "reservation", reservation="ours"
    )
    preflight(prepare(named).target)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda body: body["scheduling"].pop("maxRunDuration"), "would never terminate it"),
        (
            lambda body: body["scheduling"]["maxRunDuration"].update(seconds="99999999"),
            "exceeds the lifetime",
        ),
        (lambda body: body["scheduling"].update(instanceTerminationAction="STOP"), "is not DELETE"),
    ],
)
def test_preflight_rejects_machine_without_ttl(folder: Path, change: Any, expected: str) -> None:
    target = prepare(folder).target
    tree = json.loads(target.artefacts[6].text)
    assert tree["method"] == "compute.instances.insert"
    change(tree["body"])
    steps, _ = plan_calls([Artefact(name="50-instance.json", text=json.dumps(tree))])
    assert [problem.what for problem in ttl_problems(target, steps) if expected in problem.what]


def test_plan_calls_rejects_request_without_labels() -> None:
    with pytest.raises(InputError, match="has no ownership labels"):
        plan_calls([without_labels(row) for row in job_files()])


def test_preflight_rejects_call_to_another_project(folder: Path) -> None:
    target = prepare(folder).target
    tree = json.loads(target.artefacts[0].text)
    for key in ("project", "projectsId"):
        if key in tree["parameters"]:
            tree["parameters"][key] = "other-project"
    steps, _ = plan_calls([Artefact(name="05-bucket.json", text=json.dumps(tree))])
    with pytest.raises(InputError, match="calls project other-project, not yard-1"):
        check_preflight(
            target, steps, target.deployment.settings.rendered_s, 1e9, accept_stale=False
        )


def test_max_cost_bounds_earlier_attempts_as_well(folder: Path) -> None:
    target = prepare(folder).target
    largest = target.cost_bound.max_usd
    assert largest is not None
    preflight(target, largest + 5, earlier_usd=5.0)
    with pytest.raises(InputError, match="the cost of earlier attempts"):
        preflight(target, largest + 4, earlier_usd=5.0)
