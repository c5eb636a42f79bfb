"""Settings with their defaults: names, labels, lifetimes, and what it can cost."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.blueprint import Blueprint
from gpuyard.catalog import load_catalog
from gpuyard.provision.exposure import exposure_of, most_machines
from gpuyard.provision.samples import SHAPES, Sample, sample_blueprint
from gpuyard.provision.settings import Settings, place_of

CATALOG = load_catalog()
DAY_S = 86_400


def decision(machine: str = "a3-megagpu-8g", shape: str = "multi-node", way: str | None = "spot") -> Blueprint:
    row = next(item for item in CATALOG.machines if item.name == machine)
    kind = next(item for item in SHAPES if item == shape)
    return sample_blueprint(Sample(machine=row, shape=kind, way=way), CATALOG)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(name=st.text(max_size=80), owner=st.text(max_size=80), most=st.integers(12, 40))
def test_names_and_labels_are_what_the_servers_take(name: str, owner: str, most: int) -> None:
    blueprint = decision()
    named = replace(blueprint, workload=replace(blueprint.workload, name=name))
    place = place_of(named, Settings(owner=owner))
    for text in (place.name, place.short(most)):
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", text)
    assert len(place.short(most)) <= most
    for key, value in place.labels.items():
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", key)
        assert re.fullmatch(r"[a-z0-9]([-_a-z0-9]{0,61}[a-z0-9])?", str(value))


def test_other_decisions_have_other_names() -> None:
    assert place_of(decision(), Settings()).name != place_of(decision(way="on-demand"), Settings()).name


def test_the_lifetime_is_the_expected_time_and_a_quarter() -> None:
    assert place_of(decision(), Settings()).ttl_s == 30 * 3600
    assert place_of(decision(shape="service"), Settings()).ttl_s == 7 * DAY_S
    assert place_of(decision(), Settings(ttl_s=600)).ttl_s == 600


@given(ttl_s=st.floats(60, 1e9))
@settings(max_examples=30, deadline=None)
def test_flex_start_never_lives_longer_than_a_week(ttl_s: float) -> None:
    assert place_of(decision(way="flex-start"), Settings(ttl_s=ttl_s)).ttl_s <= 7 * DAY_S


def test_the_end_is_on_the_label() -> None:
    place = place_of(decision(), Settings(made_s=0.0, ttl_s=3600))
    assert place.expires == "1970-01-01t0100z"
    assert "expires-at=1970-01-01t0100z" in place.stamp


def test_the_place_is_the_workloads_then_that_of_the_bill() -> None:
    blueprint = decision()
    assert place_of(blueprint, Settings()).zone == "us-central1-b"
    free = replace(blueprint, workload=replace(blueprint.workload, where=replace(blueprint.workload.where, zone=None)))
    guessed = place_of(free, Settings())
    assert (guessed.region, guessed.zone_is_guessed) == ("us-central1", True)
    told = place_of(free, Settings(zone="europe-west4-c"))
    assert (told.region, told.zone_is_guessed) == ("europe-west4", False)


def test_the_largest_bill_is_the_rate_until_the_end() -> None:
    blueprint = decision()
    exposure = exposure_of(blueprint, place_of(blueprint, Settings(ttl_s=10 * 3600)))
    assert exposure.usd_per_hour == 20.0
    assert exposure.expected_usd == 480.0
    assert exposure.largest_usd == pytest.approx(480.0)  # never below what is expected
    long = exposure_of(blueprint, place_of(blueprint, Settings(ttl_s=100 * 3600)))
    assert long.largest_usd == pytest.approx(2000.0)


def test_a_service_may_grow_to_its_most() -> None:
    blueprint = decision(shape="service")
    assert most_machines(blueprint) == 4
    exposure = exposure_of(blueprint, place_of(blueprint, Settings(ttl_s=3600)))
    assert exposure.largest_usd == pytest.approx(40.0)
    assert exposure.expected_usd == pytest.approx(20.0)


def test_what_has_no_price_has_no_bill() -> None:
    blueprint = decision("dgx-h100", way=None)
    exposure = exposure_of(blueprint, place_of(blueprint, Settings()))
    assert (exposure.usd_per_hour, exposure.expected_usd, exposure.largest_usd) == (None, None, None)
