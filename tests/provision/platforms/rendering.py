"""Sample blueprints and rendering helpers for the platform tests."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

from gpuyard.blueprint.blueprint import Blueprint, Shape
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.lint import LintResult, lint
from gpuyard.provision.platform import Artefacts, Platform, Unsuitable
from gpuyard.workload.where import ConsumptionName
from sample_blueprints import BlueprintSample, sample_blueprint

SETTINGS = DeploymentSettings(project="my-project", owner="somebody", rendered_s=1_800_000_000.0)


@functools.cache
def catalog() -> Catalog:
    """Return the built-in catalog, read once."""
    return load_catalog()


def check(*artefacts: Artefact) -> LintResult:
    """Lint files that are deployed together."""
    return lint(artefacts, catalog())


@functools.cache
def blueprint_of(
    machine: str, shape: Shape, way: ConsumptionName | None = None, machines_per_replica: int = 1
) -> Blueprint:
    """Return a sample blueprint."""
    sample = BlueprintSample(machine=catalog().machine(machine), shape=shape, consumption=way)
    return sample_blueprint(sample, catalog(), machines_per_replica)


def of_machines(blueprint: Blueprint, count: int) -> Blueprint:
    """Return the blueprint with another number of machines."""
    cluster = replace(blueprint.option.cluster, machine_count=count)
    return replace(blueprint, option=replace(blueprint.option, cluster=cluster))


def render(
    platform: Platform, blueprint: Blueprint, settings: DeploymentSettings = SETTINGS
) -> Artefacts | Unsuitable:
    """Render a blueprint with settings whose defaults are not resolved yet."""
    return platform.render(blueprint, resolve_settings(blueprint, settings))


def render_artefacts(
    platform: Platform, blueprint: Blueprint, settings: DeploymentSettings = SETTINGS
) -> Artefacts:
    """Render a blueprint that the platform supports."""
    result = render(platform, blueprint, settings)
    assert isinstance(result, Artefacts), str(result)
    return result


def file_of(artefacts: Artefacts, name: str) -> Artefact:
    """Return the file with a name."""
    return next(file for file in artefacts.files if file.name == name)


def body_of(artefacts: Artefacts, name: str) -> dict[str, Plain]:
    """Return the body of a request file."""
    body = json.loads(file_of(artefacts, name).text)["body"]
    assert isinstance(body, dict)
    return body


def at(tree: Plain, *keys: str | int) -> Plain:
    """Return the value at a path."""
    for key in keys:
        if isinstance(key, int):
            assert isinstance(tree, list), key
            tree = tree[key]
        else:
            assert isinstance(tree, dict), key
            tree = tree[key]
    return tree
