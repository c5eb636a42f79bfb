"""The contract of every platform: sound files or a reason, labelled, private, without secrets, the same every time."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from gpuyard.catalog import Machine, load_catalog
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.matrix import SETTINGS, cells, representatives, tried
from gpuyard.provision.platform import Artefacts, Platform, Unsuitable
from gpuyard.provision.platforms import PLATFORMS, platform_named
from gpuyard.provision.samples import Sample, sample_blueprint, samples

CATALOG = load_catalog()
REPRESENTATIVES = representatives(CATALOG)
LABELS = {"managed-by", "owner", "plan-hash", "expires-at"}
ON_WHAT_IS_LABELLED = re.compile(
    r'"method": ".*\.(endpoints\.deployModel|jobs\.run)"'
)  # they make nothing of their own
GROUPED = ("gke", "kubernetes")  # whose replicas may be several machines
BY_NAME = pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)


def rendered(platform: Platform, machines: tuple[Machine, ...] = REPRESENTATIVES) -> Iterator[tuple[Sample, Artefacts]]:
    """Each shape of each machine by its first way, where the platform can do it."""
    seen: set[tuple[str, str]] = set()
    for sample in samples(CATALOG):
        if sample.machine in machines and (sample.machine.name, sample.shape) not in seen:
            seen.add((sample.machine.name, sample.shape))
            found = platform.render(sample_blueprint(sample, CATALOG), SETTINGS)
            if isinstance(found, Artefacts):
                yield sample, found


def objects(file: Artefact) -> list[dict[str, object]]:
    """The Kubernetes objects of a manifest."""
    return [item for item in yaml.safe_load_all(file.text) if item] if file.name.endswith(".yaml") else []


@BY_NAME
def test_every_series_renders_soundly_or_says_why_not(platform: Platform) -> None:
    found = list(cells(platform, CATALOG))
    assert any(cell.is_rendered for cell in found)
    for cell in found:
        what = f"{cell.machine} {cell.shape} {cell.way} × {cell.machines_per_replica}"
        assert not cell.findings, f"{what}: {cell.findings[0]}"
        assert cell.fabric in ("", "yes"), f"{what}: the fabric is not surely reached"
        if cell.is_rendered:
            assert len(cell.files) == len(set(cell.files)), what
            assert cell.machines_per_replica == 1 or platform.name in GROUPED, what
        else:
            assert cell.nearest != platform.name, what


@BY_NAME
def test_every_machine_type_renders_soundly_or_says_why_not(platform: Platform) -> None:
    seen: set[tuple[str, str]] = set()
    for sample in samples(CATALOG):
        if (sample.machine.name, sample.shape) not in seen:
            seen.add((sample.machine.name, sample.shape))
            cell = tried(platform, sample, CATALOG)
            assert not cell.findings, f"{cell.machine} {cell.shape}: {cell.findings[0]}"


@BY_NAME
def test_the_same_blueprint_gives_the_same_bytes(platform: Platform) -> None:
    for sample, found in rendered(platform, REPRESENTATIVES[2:5]):
        assert platform.render(sample_blueprint(sample, CATALOG), SETTINGS) == found


@BY_NAME
def test_a_reason_names_a_platform_that_exists(platform: Platform) -> None:
    names = {item.name for item in PLATFORMS} | {"gke", "slurm", "vertex-ai", "cloud-run", "compute-engine", ""}
    for sample in samples(CATALOG):
        if sample.machine in REPRESENTATIVES:
            found = platform.render(sample_blueprint(sample, CATALOG), SETTINGS)
            if isinstance(found, Unsuitable):
                assert found.why
                assert found.nearest in names
                assert str(found).startswith(f"unsuitable: {platform.name}: ")


@BY_NAME
def test_everything_says_whose_it_is_and_until_when(platform: Platform) -> None:
    for _, found in rendered(platform):
        for file in found.files:
            for item in objects(file):
                meta = item.get("metadata")
                if isinstance(meta, dict) and "apiVersion" in item:
                    labels = meta.get("labels")
                    assert isinstance(labels, dict), (file.name, item.get("kind"))
                    assert labels.keys() >= LABELS, (file.name, item.get("kind"))
            if file.name.endswith(".json") and '"method"' in file.text and not ON_WHAT_IS_LABELLED.search(file.text):
                assert "plan-hash" in file.text, file.name
                assert "expires-at" in file.text, file.name


@BY_NAME
def test_nothing_has_an_address_on_the_internet_or_a_secret(platform: Platform) -> None:
    for _, found in rendered(platform):
        whole = "\n".join(file.text for file in found.files)
        assert "accessConfigs" not in whole
        assert '"enableExternalIps": true' not in whole
        assert "0.0.0.0/0" not in whole
        assert "type: LoadBalancer" not in whole
        assert not re.search(r"AIza[0-9A-Za-z_-]{35}|hf_[A-Za-z]{20}|BEGIN [A-Z ]*PRIVATE KEY", whole)


@BY_NAME
def test_every_script_is_a_script(platform: Platform) -> None:
    told: set[str] = set()
    for _, found in rendered(platform):
        for file in found.files:
            told |= set(_scripts(file))
        for step in found.steps:
            told.add(step.command)
            told.add(step.undo)
    for text in sorted(told):
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{text}"


def _scripts(file: Artefact) -> Iterator[str]:
    """The shell scripts of a file: itself, a startup script, or the command of a container."""
    if file.name.endswith(".sh") or file.text.startswith("#!"):
        yield file.text
    for text in _texts(json.loads(file.text) if file.name.endswith(".json") else objects(file)):
        if text.startswith(("#!/bin/bash", "set -euo pipefail")):
            yield text.replace("\\$(", "$(")  # as a Toolkit blueprint writes what is not its own reference


def _texts(tree: object) -> Iterator[str]:
    """Every text of a tree."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _texts(value)


def test_platforms_are_found_by_name() -> None:
    names = [platform.name for platform in PLATFORMS]
    assert len(names) == len(set(names))
    assert {"compute-engine", "gke", "kubernetes", "tpu"} <= set(names)
    assert platform_named("gke") in PLATFORMS
    assert platform_named("nonsense") is None
