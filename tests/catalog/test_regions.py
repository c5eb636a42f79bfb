"""Region rows: every priced region, spelled correctly."""

from __future__ import annotations

from gpuyard.catalog.load import load_catalog
from gpuyard.workload.where import region_of

CATALOG = load_catalog()
GOOGLE = {region.name for region in CATALOG.regions if region.provider == "google"}


def test_google_prices_are_in_listed_regions() -> None:
    priced = {price.region for price in CATALOG.prices if price.provider == "google"} - {"any"}
    assert priced <= GOOGLE
    assert len(GOOGLE) == 44  # 43 that gcloud lists, and us-central2


def test_region_names_form_zones() -> None:
    assert [name for name in GOOGLE if region_of(f"{name}-a") != name] == []
