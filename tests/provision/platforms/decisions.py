"""Decisions for the tests of platforms: by the machine's name, the shape of the work and the way of paying."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

from gpuyard.blueprint import Blueprint, Shape
from gpuyard.catalog import Catalog, load_catalog
from gpuyard.document import Plain
from gpuyard.provision import Artefact, Lint, lint
from gpuyard.provision.platform import Artefacts, Platform
from gpuyard.provision.samples import Sample, sample_blueprint
from gpuyard.provision.settings import Settings
from gpuyard.workload import ConsumptionName

SETTINGS = Settings(project="my-project", owner="somebody", made_s=1_800_000_000.0)


@functools.cache
def catalog() -> Catalog:
    """The catalog, read once."""
    return load_catalog()


def check(*artefacts: Artefact) -> Lint:
    """What lint says of files that are deployed together."""
    return lint(artefacts, catalog())


@functools.cache
def decision(
    machine: str, shape: Shape, way: ConsumptionName | None = None, machines_per_replica: int = 1
) -> Blueprint:
    """A decision of that kind."""
    sample = Sample(machine=catalog().machine(machine), shape=shape, way=way)
    return sample_blueprint(sample, catalog(), machines_per_replica)


def of_machines(blueprint: Blueprint, count: int) -> Blueprint:
    """The decision with another number of machines."""
    cluster = replace(blueprint.option.cluster, machine_count=count)
    return replace(blueprint, option=replace(blueprint.option, cluster=cluster))


def made(platform: Platform, blueprint: Blueprint, settings: Settings = SETTINGS) -> Artefacts:
    """What the platform renders; it has to."""
    found = platform.render(blueprint, settings)
    assert isinstance(found, Artefacts), str(found)
    return found


def file_of(artefacts: Artefacts, name: str) -> Artefact:
    """The file of that name."""
    return next(file for file in artefacts.files if file.name == name)


def body_of(artefacts: Artefacts, name: str) -> dict[str, Plain]:
    """The body of the request of that name."""
    body = json.loads(file_of(artefacts, name).text)["body"]
    assert isinstance(body, dict)
    return body


def at(tree: Plain, *keys: str | int) -> Plain:
    """The value at a path."""
    for key in keys:
        if isinstance(key, int):
            assert isinstance(tree, list), key
            tree = tree[key]
        else:
            assert isinstance(tree, dict), key
            tree = tree[key]
    return tree
