"""Rendering and video: independent machines that each process a share."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

import pytest

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.cost_bound import cost_bound_of
from gpuyard.provision.deployment_settings import resolve_settings
from gpuyard.provision.platform import Artefacts, Unsuitable
from gpuyard.provision.platforms import platform_named
from gpuyard.workload.sections import Graphics

from .rendering import SETTINGS, blueprint_of, check, of_machines, render_artefacts

Use = Literal["rendering", "video"]
JOBS = ("compute-engine", "gke", "kubernetes", "slurm", "cluster-toolkit", "ray")


def graphics_blueprint(use: Use, machines: int = 3) -> Blueprint:
    """Return a blueprint for rendering or video."""
    blueprint = of_machines(blueprint_of("g2-standard-4", "multi-node", "on-demand"), machines)
    graphics = Graphics(use=use, sessions_count=60 if use == "video" else None)
    workload = replace(blueprint.workload, task="graphics", model=None, graphics=graphics)
    return replace(blueprint, workload=workload, option=replace(blueprint.option, arrangement=None))


def render(platform: str, blueprint: Blueprint) -> Artefacts | Unsuitable:
    result = platform_named(platform)
    assert result is not None
    return result.render(blueprint, resolve_settings(blueprint, SETTINGS))


@pytest.mark.parametrize("use", ["rendering", "video"])
def test_graphics_machine_deletes_itself_after_its_share(use: Use) -> None:
    engine = platform_named("compute-engine")
    assert engine is not None
    [template] = [
        file
        for file in render_artefacts(engine, graphics_blueprint(use)).files
        if file.name == "40-template.json"
    ]
    script = json.loads(template.text)["body"]["properties"]["metadata"]["items"][0]["value"]
    assert "instance-groups managed delete-instances" in script
    assert '--instances="$(hostname -s)"' in script
    assert "--size=0" not in script  # the first to finish would stop the others
    assert "--env NVIDIA_DRIVER_CAPABILITIES=all" in script


def test_training_group_is_resized_to_zero_at_the_end() -> None:
    engine = platform_named("compute-engine")
    assert engine is not None
    result = render_artefacts(engine, blueprint_of("g2-standard-48", "multi-node", "on-demand"))
    whole = "\n".join(file.text for file in result.files)
    assert "--size=0" in whole
    assert "NVIDIA_DRIVER_CAPABILITIES" not in whole


def test_rendering_has_an_end_and_video_has_not() -> None:
    frames, streams = graphics_blueprint("rendering"), graphics_blueprint("video")
    assert frames.is_batch
    assert not streams.is_batch
    assert (
        resolve_settings(frames, SETTINGS).ttl_s
        < resolve_settings(streams, SETTINGS).ttl_s
        == 7 * 86_400
    )
    cost_bound = cost_bound_of(streams, resolve_settings(streams, SETTINGS))
    assert cost_bound.expected_usd == cost_bound.max_usd
    assert frames.sessions_per_machine == streams.sessions_per_machine == 0


@pytest.mark.parametrize("use", ["rendering", "video"])
@pytest.mark.parametrize("platform", JOBS)
def test_graphics_launch_explains_sharding(platform: str, use: Use) -> None:
    result = render(platform, graphics_blueprint(use))
    assert isinstance(result, Artefacts), result
    assert not check(*(file for file in result.files if not file.name.endswith(".sh"))).errors
    whole = "\n".join(file.text for file in result.files)
    assert "NODE_RANK" in whole
    assert "NVIDIA_DRIVER_CAPABILITIES" in whole
    assert any("its share" in note for note in result.notes)


@pytest.mark.parametrize("use", ["rendering", "video"])
def test_vertex_ai_is_unsuitable_for_independent_machines(use: Use) -> None:
    several = render("vertex-ai", graphics_blueprint(use))
    assert isinstance(several, Unsuitable)
    assert several.nearest == "compute-engine"
    assert isinstance(render("vertex-ai", graphics_blueprint(use, 1)), Artefacts)
    assert isinstance(render("cloud-run", graphics_blueprint(use)), Unsuitable)
