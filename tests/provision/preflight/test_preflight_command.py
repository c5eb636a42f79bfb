"""`gpuyard preflight` and `gpuyard diff` against the fake cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.app.apply import ExternalServices, apply_folder, prepare
from gpuyard.app.preflight import PreflightResult, folder_drift, preflight
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.cli.main import main
from gpuyard.provision.apply.transport import LocalTransport
from gpuyard.provision.preflight.check_row import CheckRow

from ..apply.folders import fresh, render
from ..apply.runs import QuickClock
from ..fake.project import Project, sku
from ..fake.server import Fake, serve


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    return render(folder, "a2-highgpu-1g", "single-node", "spot", zone="us-central1-a")


@pytest.fixture(scope="module")
def reserved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, more = tmp_path_factory.mktemp("reserved"), {"reservation": "h100"}
    zone = {"zone": "us-central1-a"}
    return render(folder, "a3-megagpu-8g", "multi-node", "reservation", **more, **zone)


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serve() as running:
        yield running


def services(fake: Fake, folder: Path) -> ExternalServices:
    now_s = prepare(folder).target.deployment.settings.rendered_s + 60
    return ExternalServices(endpoint=LocalTransport(base=fake.url), clock=QuickClock(now=now_s))


def check(fake: Fake, folder: Path, catalog: Catalog, cluster: str = "") -> PreflightResult:
    return preflight(prepare(folder), services(fake, folder), catalog, cluster)


def row(result: PreflightResult, check_name: str) -> CheckRow:
    return next(row for row in result.rows if row.check == check_name)


PROJECT = Project(
    metrics={"PREEMPTIBLE_NVIDIA_A100_GPUS": (16, 0), "GPUS_ALL_REGIONS": (0, 0)},
    families={"NVIDIA_H100_MEGA": 64},
)


def test_ready_project_passes_every_check(fake: Fake, rendered: Path, catalog: Catalog) -> None:
    fake.cloud.project = PROJECT
    result = check(fake, rendered, catalog)
    verdicts = {row.check: row.verdict for row in result.rows}
    assert verdicts.pop("price") == "unknown"
    assert set(verdicts.values()) == {"ok"}
    assert set(verdicts) == {
        "folder", "cost", "service", "permissions", "zone", "machine", "image", "quota", "capacity",
    }  # fmt: skip
    assert not fake.cloud.makings


@pytest.mark.parametrize(
    ("project", "name", "what"),
    [
        (Project(disabled={"compute.googleapis.com"}), "service", "not enabled"),
        (
            Project(denied={"compute.instances.create"}),
            "permissions",
            "missing: compute.instances.create",
        ),
        (Project(zones=()), "zone", "does not exist"),
        (Project(machines=()), "machine", "not offered in us-central1-a"),
        (Project(missing_images=True), "image", "does not exist"),
        (Project(metrics={"PREEMPTIBLE_NVIDIA_A100_GPUS": (2, 2)}), "quota", "2 of 2 used"),
    ],
    ids=["service", "permission", "zone", "machine", "image", "quota"],
)
def test_what_the_project_lacks_fails(
    project: Project, name: str, what: str, fake: Fake, rendered: Path, catalog: Catalog
) -> None:
    fake.cloud.project = project
    result = check(fake, rendered, catalog)
    failure = next(row for row in result.rows if row.check == name and row.verdict == "failed")
    assert what in failure.what
    assert failure.fix
    assert result.has_failures


def test_scarce_spot_machines_are_a_warning(fake: Fake, rendered: Path, catalog: Catalog) -> None:
    fake.cloud.project = Project(obtainability=0.2, metrics=PROJECT.metrics)
    found = row(check(fake, rendered, catalog), "capacity")
    assert found.verdict == "warning"
    assert found.what == "obtainability 0.20 of 1, estimated uptime 7200s"


@pytest.mark.parametrize(
    ("tree", "what"),
    [
        (None, "no reservation in us-central1-a"),
        ({"count": "2", "inUseCount": "1"}, "1 machines are free"),
        (
            {"count": "9", "instanceProperties": {"machineType": "a3-highgpu-8g"}},
            "reserves a3-highgpu-8g",
        ),
    ],
    ids=["missing", "full", "other machine"],
)
def test_reservation_without_room_fails(
    tree: dict[str, object] | None, what: str, fake: Fake, reserved: Path, catalog: Catalog
) -> None:
    fake.cloud.project = Project(reservations={"h100": tree} if tree else {})
    found = row(check(fake, reserved, catalog), "capacity")
    assert found.verdict == "failed"
    assert what in found.what


def test_family_quota_is_read_where_the_region_has_no_metric(
    fake: Fake, tmp_path: Path, catalog: Catalog
) -> None:
    folder = render(tmp_path, "a3-megagpu-8g", "multi-node", "on-demand", zone="us-central1-a")
    fake.cloud.project = Project(families={"NVIDIA_H100_MEGA": 8})
    found = row(check(fake, folder, catalog), "quota")
    assert (found.verdict, found.subject) == ("failed", "GPUS_PER_GPU_FAMILY NVIDIA_H100_MEGA")
    assert "limit 8" in found.what


def a2_skus(ratio: float) -> list[dict[str, object]]:
    """SKUs of the parts of an A2 machine that add up to the plan's price times a ratio."""
    gpu_usd = 10.0 * ratio - 12 * 0.01 - 85 * 0.001
    where = "running in Americas"
    return [
        sku(f"Spot Preemptible A2 Instance Core {where}", 0.01, "Preemptible"),
        sku(f"Spot Preemptible A2 Instance Ram {where}", 0.001, "Preemptible"),
        sku("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs", gpu_usd, "Preemptible"),
        sku(f"A2 Instance Core {where}", 9.0),
    ]


@pytest.mark.parametrize(("ratio", "verdict"), [(1.0, "ok"), (1.3, "warning")])
def test_prices_of_today_are_compared(
    ratio: float, verdict: str, fake: Fake, rendered: Path, catalog: Catalog
) -> None:
    fake.cloud.project = Project(skus=a2_skus(ratio))
    found = row(check(fake, rendered, catalog), "price")
    assert found.verdict == verdict, found
    assert ("+30%" in found.what) == (ratio > 1.0)


def test_unreadable_answers_are_unknown_and_never_ok(
    fake: Fake, rendered: Path, catalog: Catalog
) -> None:
    fake.faults.at = dict.fromkeys(range(200), "echo")
    result = check(fake, rendered, catalog)
    read = [row for row in result.rows if row.check not in ("folder", "cost")]
    assert read
    assert {row.verdict for row in read} == {"unknown"}
    assert not any("Bearer" in row.what for row in read)


def test_preflight_command_prints_a_table_and_json(
    fake: Fake,
    rendered: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
    fake.cloud.project = PROJECT
    assert main(["preflight", str(rendered)]) == 0
    assert "0 failed" in capsys.readouterr().out
    fake.cloud.project = Project(zones=())
    assert main(["preflight", str(rendered), "--json"]) == 4
    tree = json.loads(capsys.readouterr().out)
    assert {"check", "subject", "verdict", "what", "fix"} == set(tree["rows"][0])


def test_diff_shows_missing_changed_and_extra_resources(
    fake: Fake, rendered: Path, tmp_path: Path, catalog: Catalog
) -> None:
    folder = fresh(rendered, tmp_path / "deploy")
    world = services(fake, folder)
    assert {step.state for step in folder_drift(prepare(folder), world).steps} == {"missing"}
    apply_folder(prepare(folder), world, most_usd=1e9, catalog=catalog)
    assert folder_drift(prepare(folder), world).is_same
    path = next(path for path in fake.cloud.resources if "/instances/" in path)
    live = fake.cloud.resources[path]
    live["machineType"] = live["machineType"].replace("1g", "2g")
    live["labels"]["owner"] = "someone"
    drift = folder_drift(prepare(folder), world)
    (changed,) = [step for step in drift.steps if step.state == "changed"]
    assert {row.path for row in changed.differences} == {"machineType", "labels.owner"}
    copy = path.replace(path.rsplit("/", 1)[1], "by-hand")
    link = f"https://www.googleapis.com/{copy}"
    fake.cloud.resources[copy] = {**live, "name": "by-hand", "selfLink": link}
    assert [item.name for item in folder_drift(prepare(folder), world).extra] == ["by-hand"]


def test_diff_command_exits_with_4_if_anything_differs(
    fake: Fake,
    rendered: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
    assert main(["diff", str(rendered)]) == 4
    assert "missing  50-instance.json: instances" in capsys.readouterr().out
    assert main(["diff", str(rendered), "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["extra"] == []
