"""Deployment settings and cost bound: names, labels, TTL, location, cost."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import load_catalog
from gpuyard.provision.cost_bound import cost_bound_of, max_machines
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from sample_blueprints import SHAPES, BlueprintSample, sample_blueprint

CATALOG = load_catalog()
DAY_S = 86_400


def decision(
    machine: str = "a3-megagpu-8g", shape: str = "multi-node", way: str | None = "spot"
) -> Blueprint:
    row = next(item for item in CATALOG.machines if item.name == machine)
    kind = next(item for item in SHAPES if item == shape)
    return sample_blueprint(BlueprintSample(machine=row, shape=kind, consumption=way), CATALOG)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(name=st.text(max_size=80), owner=st.text(max_size=80), most=st.integers(12, 40))
def test_names_and_labels_are_valid_for_any_text(name: str, owner: str, most: int) -> None:
    blueprint = decision()
    named = replace(blueprint, workload=replace(blueprint.workload, name=name))
    resolved = resolve_settings(named, DeploymentSettings(owner=owner))
    for text in (resolved.name, resolved.short(most)):
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", text)
    assert len(resolved.short(most)) <= most
    for key, value in resolved.labels.items():
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", key)
        assert re.fullmatch(r"[a-z0-9]([-_a-z0-9]{0,61}[a-z0-9])?", str(value))


def test_different_blueprints_have_different_names() -> None:
    assert (
        resolve_settings(decision(), DeploymentSettings()).name
        != resolve_settings(decision(way="on-demand"), DeploymentSettings()).name
    )


def test_default_ttl_is_expected_time_plus_a_quarter() -> None:
    assert resolve_settings(decision(), DeploymentSettings()).ttl_s == 30 * 3600
    assert resolve_settings(decision(shape="service"), DeploymentSettings()).ttl_s == 7 * DAY_S
    assert resolve_settings(decision(), DeploymentSettings(ttl_s=600)).ttl_s == 600


@given(ttl_s=st.floats(60, 1e9))
@settings(max_examples=30, deadline=None)
def test_flex_start_ttl_is_at_most_a_week(ttl_s: float) -> None:
    assert (
        resolve_settings(decision(way="flex-start"), DeploymentSettings(ttl_s=ttl_s)).ttl_s
        <= 7 * DAY_S
    )


def test_expiry_label_is_the_end_of_the_ttl() -> None:
    resolved = resolve_settings(decision(), DeploymentSettings(rendered_s=0.0, ttl_s=3600))
    assert resolved.expires == "1970-01-01t0100z"
    assert "expires-at=1970-01-01t0100z" in resolved.labels_text


def test_location_defaults_to_workload_then_cost_estimate() -> None:
    blueprint = decision()
    assert resolve_settings(blueprint, DeploymentSettings()).zone == "us-central1-b"
    free = replace(
        blueprint,
        workload=replace(blueprint.workload, where=replace(blueprint.workload.where, zone=None)),
    )
    guessed = resolve_settings(free, DeploymentSettings())
    assert (guessed.region, guessed.zone_is_guessed) == ("us-central1", True)
    zoned = resolve_settings(free, DeploymentSettings(zone="europe-west4-c"))
    assert (zoned.region, zoned.zone_is_guessed) == ("europe-west4", False)


def test_maximum_cost_is_the_rate_until_the_ttl() -> None:
    blueprint = decision()
    cost_bound = cost_bound_of(
        blueprint, resolve_settings(blueprint, DeploymentSettings(ttl_s=10 * 3600))
    )
    assert cost_bound.usd_per_hour == 20.0
    assert cost_bound.expected_usd == 480.0
    assert cost_bound.max_usd == pytest.approx(480.0)  # never below what is expected
    long = cost_bound_of(
        blueprint, resolve_settings(blueprint, DeploymentSettings(ttl_s=100 * 3600))
    )
    assert long.max_usd == pytest.approx(2000.0)


def test_maximum_cost_of_service_counts_all_replicas() -> None:
    blueprint = decision(shape="service")
    assert max_machines(blueprint) == 4
    cost_bound = cost_bound_of(
        blueprint, resolve_settings(blueprint, DeploymentSettings(ttl_s=3600))
    )
    assert cost_bound.max_usd == pytest.approx(40.0)
    assert cost_bound.expected_usd == pytest.approx(20.0)


def test_cost_bound_is_unknown_without_a_price() -> None:
    blueprint = decision("dgx-h100", way=None)
    cost_bound = cost_bound_of(blueprint, resolve_settings(blueprint, DeploymentSettings()))
    assert (cost_bound.usd_per_hour, cost_bound.expected_usd, cost_bound.max_usd) == (
        None,
        None,
        None,
    )
