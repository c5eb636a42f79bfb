"""Apply and destroy killed at many points: the next run completes them."""

from __future__ import annotations

import copy
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..fake.cloud import Cloud
from ..fake.server import serve
from .folders import Runner, fresh, render, runner

# All points take minutes per deployment; by default only a selection is tried.
EVERY = bool(os.environ.get("GPUYARD_EVERY_KILL"))


NUMBER = re.compile(r"\b1\d{3}\b")  # ids of the fake


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """A rendered folder with the resources of a fault-free apply."""

    folder: Path
    state: dict[str, Any]
    apply_points: int
    destroy_points: int


SAMPLES = {
    "one machine": ("a2-highgpu-1g", "single-node", "spot", "compute-engine"),
    "group": ("a3-ultragpu-8g", "multi-node", "flex-start", "compute-engine"),
    "service": ("g2-standard-4", "service", "on-demand", "compute-engine"),
    "cluster": ("a3-ultragpu-8g", "multi-node", "flex-start", "gke"),
    "slice": ("ct6e-standard-8t", "single-node", "spot", "tpu"),
    "job": ("a3-highgpu-8g", "single-node", "spot", "vertex-ai"),
    "endpoint": ("g2-standard-4", "service", "on-demand", "vertex-ai"),
    "run": ("g2-standard-4", "single-node", "on-demand", "cloud-run"),
    "director": ("a3-ultragpu-8g", "multi-node", "flex-start", "cluster-director"),
}
STEPS = {
    "one machine": 13,
    "group": 97,
    "service": 53,
    "cluster": 31,
    "slice": 43,
    "job": 5,
    "endpoint": 17,
    "run": 13,
    "director": 11,
}


@pytest.fixture(scope="module")
def forks() -> Iterator[Runner]:
    with runner() as process:
        yield process


@pytest.fixture(scope="module", params=list(SAMPLES))
def deployed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, forks: Runner
) -> Deployed:
    """A sample that was applied and destroyed once without a fault."""
    machine, shape, way, platform = SAMPLES[request.param]
    folder = render(tmp_path_factory.mktemp("sample"), machine, shape, way, platform)  # type: ignore[arg-type]
    work = fresh(folder, folder.parent / "whole")
    with serve() as fake:
        applied = forks.run("apply", work, fake.url)
        assert not applied["error"]
        assert set(applied["ends"]) == {"created"}
        state = copy.deepcopy(fake.cloud.resources)
        destroyed = forks.run("destroy", work, fake.url)
        assert not destroyed["error"]
        assert fake.cloud.resources == {}
    return Deployed(
        folder=folder,
        state=state,
        apply_points=applied["points"],
        destroy_points=destroyed["points"],
    )


def points(count: int, name: str) -> range:
    """Return the points to kill at: all, or a selection."""
    step = 1 if EVERY else STEPS[name]
    return range(count % step, count, step)


def named(resources: dict[str, Any]) -> str:
    """Return the resources as text, without server-assigned numbers."""
    return NUMBER.sub("N", json.dumps(resources, sort_keys=True))


def check(fake: Any, deployed: Deployed) -> None:
    """Check that the state is complete and nothing was created twice."""
    assert named(fake.cloud.resources) == named(deployed.state)
    assert len(fake.cloud.resources) == len(deployed.state)
    assert max(Counter(NUMBER.sub("N", path) for path in fake.cloud.makings).values()) == 1


@pytest.mark.parametrize("is_late", [False, True], ids=["shown at once", "shown when done"])
def test_killed_apply_resumes_to_same_state(
    deployed: Deployed, forks: Runner, tmp_path: Path, is_late: bool, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["deployed"]
    for point in points(deployed.apply_points, name):
        folder = fresh(deployed.folder, tmp_path / "work")
        with serve(Cloud(is_late=is_late, delay=4)) as fake:
            assert forks.run("apply", folder, fake.url, kill_at=point)["killed"]
            again = forks.run("apply", folder, fake.url)
            assert not again["error"], point
            check(fake, deployed)
            assert not forks.run("destroy", folder, fake.url)["error"], point
            assert fake.cloud.resources == {}


@pytest.mark.parametrize("is_late", [False, True], ids=["shown at once", "shown when done"])
def test_destroy_after_killed_apply_deletes_everything(
    deployed: Deployed, forks: Runner, tmp_path: Path, is_late: bool, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["deployed"]
    for point in points(deployed.apply_points, name):
        folder = fresh(deployed.folder, tmp_path / "work")
        with serve(Cloud(is_late=is_late, delay=4)) as fake:
            assert forks.run("apply", folder, fake.url, kill_at=point)["killed"]
            assert not forks.run("destroy", folder, fake.url)["error"], point
            fake.cloud.clock += 100  # every pending operation is done by now
            fake.cloud.tick()
            assert fake.cloud.resources == {}, point


def test_killed_destroy_resumes_or_is_applied_again(
    deployed: Deployed, forks: Runner, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["deployed"]
    for point in points(deployed.destroy_points, name):
        folder = fresh(deployed.folder, tmp_path / "work")
        with serve(Cloud(is_late=True, delay=4)) as fake:
            forks.run("apply", folder, fake.url)
            assert forks.run("destroy", folder, fake.url, kill_at=point)["killed"]
            if point % 2:  # continue with destroy, or apply again
                assert not forks.run("apply", folder, fake.url)["error"], point
                assert named(fake.cloud.resources) == named(deployed.state)
            assert not forks.run("destroy", folder, fake.url)["error"], point
            assert fake.cloud.resources == {}
