"""Which machines a workload allows, and what the catalog's answers mean."""

from __future__ import annotations

import pytest

from gpuyard.workload import Stock, Where, allowed_machines, may_be_had, may_be_placed, may_run
from gpuyard.workload.where import matches, region_of

from .rows import CATALOG, machine


def names(where: Where) -> list[str]:
    return [row.name for row in allowed_machines(where, CATALOG)]


def test_allowed_machines() -> None:
    assert names(Where()) == ["a3-ultragpu-8g", "a3-megagpu-8g", "a4x-highgpu-4g", "g2-standard-96", "ct6e-standard-4t"]
    assert names(Where(machines=("a3-*", "g2-*"), exclude=("*-megagpu-*",))) == ["a3-ultragpu-8g", "g2-standard-96"]
    assert names(Where(provider="onprem")) == ["dgx-h100", "dgx-h200"]
    assert names(Where(provider="onprem", inventory=(Stock(name="DGX-H100", count=2),))) == ["dgx-h100"]
    assert names(Where(exclude=("*",))) == []


def test_a_price_alone_or_no_answer_is_not_a_no() -> None:
    unknown, listed = machine("x", "h100"), machine("x", "h100", on_demand="price-only")
    refused = machine("x", "h100", on_demand="no", on_demand_reservation="no")
    assert may_be_had(unknown, "on-demand")
    assert may_be_had(listed, "on-demand")
    assert not may_be_had(refused, "on-demand")
    assert may_be_had(refused, "reservation")  # in calendar mode, perhaps
    assert may_be_placed(unknown, "cloud-run")
    assert not may_be_placed(machine("x", "h100", cloud_run="no"), "cloud-run")
    assert may_be_placed(machine("x", "h100", gke_autopilot="no"), "gke")
    assert may_be_placed(unknown, "kubernetes")


def test_frameworks() -> None:
    assert may_run(CATALOG.machine("a3-ultragpu-8g"), "cuda", CATALOG)
    assert not may_run(CATALOG.machine("ct6e-standard-4t"), "cuda", CATALOG)
    assert may_run(machine("x", "unheard-of"), "cuda", CATALOG)
    assert may_run(CATALOG.machine("c3-standard-176"), "cuda", CATALOG)


@pytest.mark.parametrize(
    ("zone", "region"),
    [("us-central1-a", "us-central1"), ("northamerica-northeast2-c", "northamerica-northeast2"), ("us-central1", None),
     ("", None), ("US-Central1-a", None), ("us-central1-ab", None),
     ("us-south1-ai1b", "us-south1"), ("us-south1-ai1", None)],
)  # fmt: skip
def test_a_zone_tells_its_region(zone: str, region: str | None) -> None:
    assert region_of(zone) == region


def test_patterns() -> None:
    assert matches("A2-*", "a2-ultragpu-8g")
    assert matches("a2-ultragpu-?g", "a2-ultragpu-8g")
    assert not matches("a2", "a2-ultragpu-8g")
