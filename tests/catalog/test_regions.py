"""The regions: all that prices are in, none that is written wrongly."""

from __future__ import annotations

from gpuyard.catalog import load_catalog
from gpuyard.workload.where import region_of

CATALOG = load_catalog()
GOOGLE = {region.name for region in CATALOG.regions if region.provider == "google"}


def test_every_price_of_google_is_in_a_region_that_is_listed() -> None:
    priced = {price.region for price in CATALOG.prices if price.provider == "google"} - {"any"}
    assert priced <= GOOGLE
    assert len(GOOGLE) == 44  # 43 that gcloud lists, and us-central2


def test_every_region_gives_zones() -> None:
    assert [name for name in GOOGLE if region_of(f"{name}-a") != name] == []
