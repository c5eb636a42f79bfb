"""Which machines a workload allows, and what the catalog's answers mean."""

from __future__ import annotations

import pytest

from gpuyard.workload.eligibility import allowed_machines, can_be_placed, is_available, may_run
from gpuyard.workload.where import InventoryItem, Where, matches, region_of

from .rows import CATALOG, machine


def names(where: Where) -> list[str]:
    return [row.name for row in allowed_machines(where, CATALOG)]


def test_allowed_machines_honour_provider_inventory_and_patterns() -> None:
    assert names(Where()) == [
        "a3-ultragpu-8g",
        "a3-megagpu-8g",
        "a4x-highgpu-4g",
        "g2-standard-96",
        "ct6e-standard-4t",
    ]
    assert names(Where(machines=("a3-*", "g2-*"), exclude=("*-megagpu-*",))) == [
        "a3-ultragpu-8g",
        "g2-standard-96",
    ]
    assert names(Where(provider="onprem")) == ["dgx-h100", "dgx-h200"]
    assert names(
        Where(provider="onprem", inventory=(InventoryItem(name="DGX-H100", count=2),))
    ) == ["dgx-h100"]
    assert names(Where(exclude=("*",))) == []


def test_unknown_or_price_only_offer_counts_as_available() -> None:
    unknown, listed = machine("x", "h100"), machine("x", "h100", on_demand="price-only")
    refused = machine("x", "h100", on_demand="no", on_demand_reservation="no")
    assert is_available(unknown, "on-demand")
    assert is_available(listed, "on-demand")
    assert not is_available(refused, "on-demand")
    assert is_available(refused, "reservation")  # in calendar mode, perhaps
    assert can_be_placed(unknown, "cloud-run")
    assert not can_be_placed(machine("x", "h100", cloud_run="no"), "cloud-run")
    assert can_be_placed(machine("x", "h100", gke_autopilot="no"), "gke")
    assert can_be_placed(unknown, "kubernetes")


def test_may_run_follows_frameworks_of_chip() -> None:
    assert may_run(CATALOG.machine("a3-ultragpu-8g"), "cuda", CATALOG)
    assert not may_run(CATALOG.machine("ct6e-standard-4t"), "cuda", CATALOG)
    assert may_run(machine("x", "unheard-of"), "cuda", CATALOG)
    assert may_run(CATALOG.machine("c3-standard-176"), "cuda", CATALOG)


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-central1-a", "us-central1"),
        ("northamerica-northeast2-c", "northamerica-northeast2"),
        ("us-central1", None),
        ("", None),
        ("US-Central1-a", None),
        ("us-central1-ab", None),
        ("us-south1-ai1b", "us-south1"),
        ("us-south1-ai1", None),
    ],
)
def test_region_of_zone(zone: str, region: str | None) -> None:
    assert region_of(zone) == region


def test_patterns_ignore_case() -> None:
    assert matches("A2-*", "a2-ultragpu-8g")
    assert matches("a2-ultragpu-?g", "a2-ultragpu-8g")
    assert not matches("a2", "a2-ultragpu-8g")
