"""Rendering and video: machines that take shares of their own, and end with them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

import pytest

from gpuyard.blueprint import Blueprint
from gpuyard.provision.exposure import exposure_of
from gpuyard.provision.platform import Artefacts, Unsuitable
from gpuyard.provision.platforms import platform_named
from gpuyard.provision.settings import place_of
from gpuyard.workload import Graphics

from .decisions import SETTINGS, check, decision, made, of_machines

Use = Literal["rendering", "video"]
JOBS = ("compute-engine", "gke", "kubernetes", "slurm", "cluster-toolkit", "ray")


def pixels(use: Use, machines: int = 3) -> Blueprint:
    """A decision for frames or streams."""
    blueprint = of_machines(decision("g2-standard-4", "multi-node", "on-demand"), machines)
    graphics = Graphics(use=use, sessions_count=60 if use == "video" else None)
    workload = replace(blueprint.workload, task="graphics", model=None, graphics=graphics)
    return replace(blueprint, workload=workload, option=replace(blueprint.option, arrangement=None))


def render(platform: str, blueprint: Blueprint) -> Artefacts | Unsuitable:
    found = platform_named(platform)
    assert found is not None
    return found.render(blueprint, SETTINGS)


@pytest.mark.parametrize("use", ["rendering", "video"])
def test_a_machine_leaves_the_group_with_its_own_share(use: Use) -> None:
    engine = platform_named("compute-engine")
    assert engine is not None
    [template] = [file for file in made(engine, pixels(use)).files if file.name == "40-template.json"]
    script = json.loads(template.text)["body"]["properties"]["metadata"]["items"][0]["value"]
    assert "instance-groups managed delete-instances" in script
    assert '--instances="$(hostname -s)"' in script
    assert "--size=0" not in script  # the first to finish would end the others
    assert "--env NVIDIA_DRIVER_CAPABILITIES=all" in script


def test_training_still_ends_together() -> None:
    engine = platform_named("compute-engine")
    assert engine is not None
    found = made(engine, decision("g2-standard-48", "multi-node", "on-demand"))
    whole = "\n".join(file.text for file in found.files)
    assert "--size=0" in whole
    assert "NVIDIA_DRIVER_CAPABILITIES" not in whole


def test_frames_come_to_an_end_and_streams_do_not() -> None:
    frames, streams = pixels("rendering"), pixels("video")
    assert frames.has_end
    assert not streams.has_end
    assert place_of(frames, SETTINGS).ttl_s < place_of(streams, SETTINGS).ttl_s == 7 * 86_400
    exposure = exposure_of(streams, place_of(streams, SETTINGS))
    assert exposure.expected_usd == exposure.largest_usd
    assert frames.seats_per_machine == streams.seats_per_machine == 0


@pytest.mark.parametrize("use", ["rendering", "video"])
@pytest.mark.parametrize("platform", JOBS)
def test_the_program_is_told_its_share(platform: str, use: Use) -> None:
    found = render(platform, pixels(use))
    assert isinstance(found, Artefacts), found
    assert not check(*(file for file in found.files if not file.name.endswith(".sh"))).errors
    whole = "\n".join(file.text for file in found.files)
    assert "NODE_RANK" in whole
    assert "NVIDIA_DRIVER_CAPABILITIES" in whole
    assert any("its own share" in note for note in found.notes)


@pytest.mark.parametrize("use", ["rendering", "video"])
def test_a_custom_job_ends_with_its_first_machine(use: Use) -> None:
    several = render("vertex-ai", pixels(use))
    assert isinstance(several, Unsuitable)
    assert several.nearest == "compute-engine"
    assert isinstance(render("vertex-ai", pixels(use, 1)), Artefacts)
    assert isinstance(render("cloud-run", pixels(use)), Unsuitable)
