"""Contract of every platform: valid, labelled, private and deterministic files, or a reason."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.machines import Machine
from gpuyard.plan.option import Suitability
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.platform import Artefacts, Platform, Unsuitable
from gpuyard.provision.platforms import PLATFORMS, platform_named
from provision_matrix import SETTINGS, cells, render_cell, representatives
from sample_blueprints import BlueprintSample, sample_blueprint, samples

from .rendering import Shape, blueprint_of, render

CATALOG = load_catalog()
REPRESENTATIVES = representatives(CATALOG)
LABELS = {"managed-by", "owner", "plan-hash", "expires-at"}
ON_WHAT_IS_LABELLED = re.compile(
    r'"method": ".*\.(endpoints\.deployModel|jobs\.run)"'
)  # actions create no resource
BY_NAME = pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)


def rendered(
    platform: Platform, machines: tuple[Machine, ...] = REPRESENTATIVES
) -> Iterator[tuple[BlueprintSample, Artefacts]]:
    """Yield each shape of each machine with its first consumption option, if it renders."""
    seen: set[tuple[str, str]] = set()
    for sample in samples(CATALOG):
        if sample.machine in machines and (sample.machine.name, sample.shape) not in seen:
            seen.add((sample.machine.name, sample.shape))
            result = render(platform, sample_blueprint(sample, CATALOG), SETTINGS)
            if isinstance(result, Artefacts):
                yield sample, result


def objects(file: Artefact) -> list[dict[str, object]]:
    """Return the Kubernetes objects of a manifest."""
    return (
        [item for item in yaml.safe_load_all(file.text) if item]
        if file.name.endswith(".yaml")
        else []
    )


@BY_NAME
def test_every_series_renders_without_findings_or_is_unsuitable(platform: Platform) -> None:
    result = list(cells(platform, CATALOG))
    assert any(cell.is_rendered for cell in result)
    for cell in result:
        what = f"{cell.machine} {cell.shape} {cell.consumption} × {cell.machines_per_replica}"
        assert not cell.findings, f"{what}: {cell.findings[0]}"
        assert cell.fabric in ("", "yes"), f"{what}: the fabric is not surely reached"
        if cell.is_rendered:
            assert len(cell.files) == len(set(cell.files)), what
        else:
            assert cell.nearest != platform.name, what


@BY_NAME
def test_every_machine_type_renders_without_findings_or_is_unsuitable(platform: Platform) -> None:
    seen: set[tuple[str, str]] = set()
    for sample in samples(CATALOG):
        if (sample.machine.name, sample.shape) not in seen:
            seen.add((sample.machine.name, sample.shape))
            cell = render_cell(platform, sample, CATALOG)
            assert not cell.findings, f"{cell.machine} {cell.shape}: {cell.findings[0]}"


@BY_NAME
def test_rendering_is_deterministic(platform: Platform) -> None:
    for sample, result in rendered(platform, REPRESENTATIVES[2:5]):
        assert render(platform, sample_blueprint(sample, CATALOG), SETTINGS) == result


@BY_NAME
def test_unsuitable_names_an_existing_platform(platform: Platform) -> None:
    names = {item.name for item in PLATFORMS} | {
        "gke",
        "slurm",
        "vertex-ai",
        "cloud-run",
        "compute-engine",
        "",
    }
    for sample in samples(CATALOG):
        if sample.machine in REPRESENTATIVES:
            result = render(platform, sample_blueprint(sample, CATALOG), SETTINGS)
            if isinstance(result, Unsuitable):
                assert result.why
                assert result.nearest in names
                assert str(result).startswith(f"unsuitable: {platform.name}: ")


@pytest.mark.parametrize(
    ("shape", "where", "nearest"),
    [("multi-node", "slurm, kubernetes", "slurm"), ("service", "kubernetes", "kubernetes")],
)
@pytest.mark.parametrize("name", ["gke", "compute-engine", "cluster-toolkit", "vertex-ai"])
def test_google_platforms_name_the_other_cloud_and_what_works_there(
    name: str, shape: Shape, where: str, nearest: str
) -> None:
    blueprint = blueprint_of("p5.48xlarge", shape, "on-demand")
    verdicts = tuple(
        Suitability(platform=platform, suits=True, why=f"{platform} exists")
        for platform in ("slurm", "kubernetes")
    )
    blueprint = replace(blueprint, option=replace(blueprint.option, platforms=verdicts))
    result = render(platform_named(name), blueprint, SETTINGS)
    assert isinstance(result, Unsuitable)
    assert "p5.48xlarge is rented from AWS" in result.why
    assert result.why.endswith(f"on AWS: {where}")
    assert result.nearest == nearest


@BY_NAME
def test_every_resource_has_ownership_labels(platform: Platform) -> None:
    for _, result in rendered(platform):
        for file in result.files:
            for item in objects(file):
                meta = item.get("metadata")
                if isinstance(meta, dict) and "apiVersion" in item:
                    labels = meta.get("labels")
                    assert isinstance(labels, dict), (file.name, item.get("kind"))
                    assert labels.keys() >= LABELS, (file.name, item.get("kind"))
            if (
                file.name.endswith(".json")
                and '"method"' in file.text
                and not ON_WHAT_IS_LABELLED.search(file.text)
            ):
                assert "plan-hash" in file.text, file.name
                assert "expires-at" in file.text, file.name


@BY_NAME
def test_rendered_files_have_no_public_address_and_no_secret(platform: Platform) -> None:
    for _, result in rendered(platform):
        whole = "\n".join(file.text for file in result.files)
        assert "accessConfigs" not in whole
        assert '"enableExternalIps": true' not in whole
        assert "0.0.0.0/0" not in whole
        assert "type: LoadBalancer" not in whole
        assert not re.search(
            r"AIza[0-9A-Za-z_-]{35}|hf_[A-Za-z]{20}|BEGIN [A-Z ]*PRIVATE KEY", whole
        )


@BY_NAME
def test_rendered_scripts_are_valid_bash(platform: Platform) -> None:
    scripts: set[str] = set()
    for _, result in rendered(platform):
        for file in result.files:
            scripts |= set(_scripts(file))
        for step in result.steps:
            scripts.add(step.command)
            scripts.add(step.undo)
    for text in sorted(scripts):
        done = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, f"{done.stderr}\n{text}"


def _scripts(file: Artefact) -> Iterator[str]:
    """Yield the shell scripts in a file: itself, startup scripts, container commands."""
    if file.name.endswith(".sh") or file.text.startswith("#!"):
        yield file.text
    for text in _texts(json.loads(file.text) if file.name.endswith(".json") else objects(file)):
        if text.startswith(("#!/bin/bash", "set -euo pipefail")):
            yield text.replace(
                "\\$(", "$("
            )  # escaping of shell substitutions in a Toolkit blueprint


def _texts(tree: object) -> Iterator[str]:
    """Yield every string of a tree."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _texts(value)


def test_platform_named_returns_platform_or_none() -> None:
    names = [platform.name for platform in PLATFORMS]
    assert len(names) == len(set(names))
    assert {"compute-engine", "gke", "kubernetes", "tpu"} <= set(names)
    assert platform_named("gke") in PLATFORMS
    assert platform_named("nonsense") is None
