"""Sweep finds by label what no journal tells of, and removes it where that was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.provision.apply import apply, remove_leftovers, sweep
from gpuyard.provision.apply.sweep import SOURCES
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.platforms import PLATFORMS
from gpuyard.provision.validate.google import google_methods

from ..fake.cloud import Cloud
from ..fake.server import Faults, serve
from .folders import render, runner
from .vertex import LABELS, endpoint_files, job_files
from .works import NOW_S, hand, work


@pytest.mark.parametrize(
    ("machine", "shape", "way", "platform"),
    [
        ("a3-ultragpu-8g", "multi-node", "flex-start", "compute-engine"),
        ("g2-standard-4", "service", "on-demand", "compute-engine"),
        ("a3-ultragpu-8g", "multi-node", "flex-start", "gke"),
        ("ct6e-standard-8t", "single-node", "spot", "tpu"),
    ],
)  # fmt: skip
def test_everything_that_apply_makes_is_found_and_can_be_removed(
    machine: str, shape: str, way: str, platform: str, tmp_path: Path
) -> None:
    folder = render(tmp_path, machine, shape, way, platform)  # type: ignore[arg-type]
    with serve(Cloud(is_late=True)) as fake, runner() as forks:
        assert not forks.run("apply", folder, fake.url)["error"]
        other = "compute/v1/projects/yard-1/global/networks/other"
        fake.cloud.resources[other] = {"name": "other", "selfLink": f"https://www.googleapis.com/{other}"}
        found = sweep(hand(fake.url), "yard-1", (), NOW_S)
        inside = {key for key in fake.cloud.resources if "/resizeRequests/" in key or "/nodePools/" in key}
        assert {item.resource for item in found.leftovers} == set(fake.cloud.resources) - inside - {other}
        assert not found.unseen
        ends = remove_leftovers(hand(fake.url), found.leftovers, lambda _: None)
        assert {row.end for row in ends} <= {"removed", "was not there"}
        assert list(fake.cloud.resources) == [other]


@pytest.mark.parametrize("files", [job_files(), endpoint_files()], ids=["jobs", "endpoint"])
def test_lists_by_region_are_seen_in_the_named_region(files: tuple[Artefact, ...], tmp_path: Path) -> None:
    with serve() as fake, work(tmp_path, fake.url, files, LABELS["plan-hash"]) as held:
        assert apply(held).failure is None
        found = sweep(hand(fake.url), "yard-1", ("us-central1",), NOW_S)
        assert {item.resource for item in found.leftovers} == set(fake.cloud.resources)
        assert {item.stamp.owner for item in found.leftovers} == {"ada"}
        assert sweep(hand(fake.url), "yard-1", ("europe-west4",), NOW_S).leftovers == ()


def test_what_is_past_its_end_is_marked(tmp_path: Path) -> None:
    with serve() as fake, work(tmp_path, fake.url, job_files(), LABELS["plan-hash"]) as held:
        apply(held)
        for now_s, past in ((NOW_S, False), (NOW_S + 30 * 86_400, True)):
            found = sweep(hand(fake.url), "yard-1", ("us-central1",), now_s)
            assert {item.is_expired for item in found.leftovers} == {past}


def test_a_list_that_is_refused_is_told() -> None:
    with serve() as fake:
        fake.faults = Faults(at={0: "quota"})
        found = sweep(hand(fake.url), "yard-1", (), NOW_S)
    assert len(found.unseen) == 1
    assert "quotaExceeded" in found.unseen[0]


def test_every_kind_that_a_platform_makes_is_looked_for() -> None:
    kinds = {name.rsplit(".", 2)[1] for name in SOURCES}
    assert {"networks", "instances", "clusters", "buckets", "customJobs", "services"} <= kinds
    assert all(source in google_methods() for source in SOURCES)
    assert PLATFORMS
