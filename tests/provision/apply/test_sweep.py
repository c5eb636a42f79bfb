"""Sweep: find leftover resources by label and delete them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.provision.apply.calls import ApiCall, plan_calls
from gpuyard.provision.apply.execute import apply
from gpuyard.provision.apply.ownership_labels import ownership_labels
from gpuyard.provision.apply.sweep import SOURCES, delete_leftovers, sweep
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.platform import Artefacts
from gpuyard.provision.platforms import PLATFORMS
from gpuyard.provision.validate.google import google_methods
from sample_blueprints import sample_blueprint, samples

from ..fake.cloud import Cloud
from ..fake.server import Faults, serve
from .folders import render, runner
from .requests import LABELS, endpoint_files, job_files
from .runs import NOW_S, apply_run, google_client

DELETED_WITH_PARENT = {
    "compute.instanceGroupManagerResizeRequests",
    "container.projects.locations.clusters.nodePools",
}


@pytest.mark.parametrize(
    ("machine", "shape", "way", "platform"),
    [
        ("a3-ultragpu-8g", "multi-node", "flex-start", "compute-engine"),
        ("g2-standard-4", "service", "on-demand", "compute-engine"),
        ("a3-ultragpu-8g", "multi-node", "flex-start", "gke"),
        ("ct6e-standard-8t", "single-node", "spot", "tpu"),
    ],
)
def test_sweep_finds_and_deletes_everything_apply_creates(
    machine: str, shape: str, way: str, platform: str, tmp_path: Path
) -> None:
    folder = render(tmp_path, machine, shape, way, platform)  # type: ignore[arg-type]
    with serve(Cloud(is_late=True)) as fake, runner() as forks:
        assert not forks.run("apply", folder, fake.url)["error"]
        other = "compute/v1/projects/yard-1/global/networks/other"
        fake.cloud.resources[other] = {
            "name": "other",
            "selfLink": f"https://www.googleapis.com/{other}",
        }
        found = sweep(google_client(fake.url), "yard-1", (), NOW_S)
        inside = {
            key for key in fake.cloud.resources if "/resizeRequests/" in key or "/nodePools/" in key
        }
        assert {item.resource for item in found.leftovers} == set(fake.cloud.resources) - inside - {
            other
        }
        assert not found.unread
        ends = delete_leftovers(google_client(fake.url), found.leftovers, lambda _: None)
        assert {row.outcome for row in ends} <= {"deleted", "did not exist"}
        assert list(fake.cloud.resources) == [other]


@pytest.mark.parametrize("files", [job_files(), endpoint_files()], ids=["jobs", "endpoint"])
def test_sweep_reads_regional_lists_in_given_regions(
    files: tuple[Artefact, ...], tmp_path: Path
) -> None:
    with serve() as fake, apply_run(tmp_path, fake.url, files, LABELS["plan-hash"]) as held:
        assert apply(held).failure is None
        found = sweep(google_client(fake.url), "yard-1", ("us-central1",), NOW_S)
        assert {item.resource for item in found.leftovers} == set(fake.cloud.resources)
        assert {item.labels.owner for item in found.leftovers} == {"ada"}
        assert sweep(google_client(fake.url), "yard-1", ("europe-west4",), NOW_S).leftovers == ()


def test_sweep_marks_expired_resources(tmp_path: Path) -> None:
    with serve() as fake, apply_run(tmp_path, fake.url, job_files(), LABELS["plan-hash"]) as held:
        apply(held)
        for now_s, past in ((NOW_S, False), (NOW_S + 30 * 86_400, True)):
            found = sweep(google_client(fake.url), "yard-1", ("us-central1",), now_s)
            assert {item.is_expired for item in found.leftovers} == {past}


def test_sweep_retains_resource_whose_label_changed(tmp_path: Path) -> None:
    with serve() as fake, apply_run(tmp_path, fake.url, job_files(), LABELS["plan-hash"]) as held:
        apply(held)
        found = sweep(google_client(fake.url), "yard-1", ("us-central1",), NOW_S)
        for tree in fake.cloud.resources.values():
            tree["labels"] = {**tree["labels"], "plan-hash": "f" * 16}
        ends = delete_leftovers(google_client(fake.url), found.leftovers, lambda _: None)
        assert {row.outcome for row in ends} == {"retained"}
        assert len(fake.cloud.resources) == len(found.leftovers)


def test_labels_of_a_resource_inside_another_are_not_its_own() -> None:
    pool = {"name": "ours", "config": {"labels": LABELS}}
    assert ownership_labels(pool) is not None
    assert ownership_labels({"name": "foreign", "nodePools": [pool]}) is None


def test_sweep_reports_unreadable_list() -> None:
    with serve() as fake:
        fake.faults = Faults(at={0: "quota"})
        found = sweep(google_client(fake.url), "yard-1", (), NOW_S)
    assert len(found.unread) == 1
    assert "quotaExceeded" in found.unread[0]


def test_sweep_sources_are_known_api_methods() -> None:
    assert all(source in google_methods() for source in SOURCES)


def test_sweep_covers_every_resource_type_that_platforms_create() -> None:
    swept = {source.rsplit(".", 1)[0] for source in SOURCES}
    catalog = load_catalog()
    created: set[str] = set()
    for sample in samples(catalog):
        blueprint = sample_blueprint(sample, catalog)
        settings = resolve_settings(blueprint, DeploymentSettings())
        for platform in PLATFORMS:
            artefacts = platform.render(blueprint, settings)
            if isinstance(artefacts, Artefacts):
                steps = [
                    step
                    for step in plan_calls(artefacts.files)[0]
                    if isinstance(step, ApiCall) and step.identity in ("named", "listed")
                ]
                created |= {step.collection for step in steps}
    assert created - DELETED_WITH_PARENT <= swept
