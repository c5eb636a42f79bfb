"""Flex-start: a run that outlives its machines is refused with a way to do it."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.app.provision import Provisioned, provision
from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import load_catalog
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platform import Unsuitable
from gpuyard.units import DAY_S
from sample_blueprints import BlueprintSample, sample_blueprint

CATALOG = load_catalog()
SETTINGS = DeploymentSettings(project="my-project", rendered_s=1_800_000_000.0)


def blueprint_of(days: float) -> Blueprint:
    sample = BlueprintSample(
        machine=CATALOG.machine("a3-megagpu-8g"), shape="multi-node", consumption="flex-start"
    )
    blueprint = sample_blueprint(sample, CATALOG)
    bills = tuple(
        replace(bill, expected_s=days * DAY_S, billed_s=days * DAY_S)
        for bill in blueprint.option.bills
    )
    option = replace(blueprint.option, expected_s=days * DAY_S, bills=bills)
    return replace(blueprint, option=option)


def test_flex_start_refuses_a_run_longer_than_its_machines_live() -> None:
    result = provision(blueprint_of(39.0), "gke", SETTINGS, CATALOG)
    assert isinstance(result, Unsuitable)
    assert "reservation" in result.nearest
    assert "6 jobs" in result.nearest_why


def test_flex_start_renders_one_part_of_a_longer_run() -> None:
    part = replace(SETTINGS, ttl_s=7.0 * DAY_S)
    assert isinstance(provision(blueprint_of(39.0), "gke", part, CATALOG), Provisioned)


def test_flex_start_warns_when_the_error_bar_exceeds_the_limit() -> None:
    result = provision(blueprint_of(6.5), "gke", SETTINGS, CATALOG)
    assert isinstance(result, Provisioned)
    assert any("Flex-start ends the machines after 7d" in row for row in result.artefacts.notes)
    short = provision(blueprint_of(2.0), "gke", SETTINGS, CATALOG)
    assert isinstance(short, Provisioned)
    assert not any("Flex-start ends" in row for row in short.artefacts.notes)
