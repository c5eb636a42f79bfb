"""Price rows: dated, sourced, of known machines."""

from __future__ import annotations

import datetime
from collections import Counter

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.prices import Price

CATALOG = load_catalog()
PRICES = {price.name: price for price in CATALOG.prices}
MONTH_H = 730


def google(machine: str, region: str = "us-central1") -> Price:
    """The price of a Google machine."""
    return PRICES[f"google/{region}/{machine}"]


def test_price_name_is_provider_region_machine() -> None:
    for price in CATALOG.prices:
        assert price.name == f"{price.provider}/{price.region}/{price.machine}"


def is_plausible(price: Price) -> bool:
    """True if a price is positive, dated, and falls with what is given up for it."""
    columns = (
        price.on_demand_usd_per_hour,
        price.spot_usd_per_hour,
        price.committed_1y_usd_per_hour,
        price.committed_3y_usd_per_hour,
    )
    given = [amount for amount in columns if amount is not None]
    on_demand, spot, one_year, three_years = columns
    return (
        700.0 not in given  # the list's sentinel for "unknown"
        and all(0 < amount < 250 for amount in given)
        and (given == sorted(given, reverse=True) or spot is not None)
        and (on_demand is not None or "no public price" in price.note)
        and not (on_demand is not None and spot is not None and spot >= on_demand)
        and not (one_year and three_years and three_years >= one_year)
        and datetime.date(2025, 1, 1) < price.date < datetime.date(2027, 1, 1)
    )


def test_prices_are_plausible() -> None:
    assert [price.name for price in CATALOG.prices if not is_plausible(price)] == []


def test_catalog_has_prices_of_every_provider() -> None:
    assert Counter(price.provider for price in CATALOG.prices) == {
        "google": 673,
        "aws": 285,
        "azure": 27,
        "coreweave": 4,
        "lambda": 187,
        "nebius": 14,
        "oci": 195,
        "runpod": 336,
    }


def test_machine_without_on_demand_offer_is_flagged() -> None:
    listed_only = {price.machine for price in CATALOG.prices if not price.on_demand_can_be_created}
    assert listed_only == {
        "a4-highgpu-8g",
        "a3-ultragpu-8g",
        "a3-highgpu-1g",
        "a3-highgpu-2g",
        "a3-highgpu-4g",
        "a4x-highgpu-4g",
        "a4x-maxgpu-4g-metal",
    }
    for name in listed_only:
        assert CATALOG.machine(name).consumption.on_demand in ("no", "price-only"), name


def test_accelerator_price_excludes_host() -> None:
    attached = [
        price
        for price in CATALOG.prices
        if price.machine.startswith("n1-") and "x" in price.machine
    ]
    assert len({price.machine for price in attached}) == 13
    assert {price.covers for price in attached} == {"accelerators"}
    assert google("n1-4xt4").on_demand_usd_per_hour == pytest.approx(4 * 0.35)
    assert google("n1-standard-8").covers == "host"
    assert google("n1-standard-8").on_demand_usd_per_hour == pytest.approx(0.38)


def test_committed_prices_are_hourly() -> None:
    price = google("a3-highgpu-8g")
    assert price.committed_1y_usd_per_hour == pytest.approx(44810.08 / MONTH_H, abs=1e-5)
    assert price.committed_3y_usd_per_hour == pytest.approx(28371.00 / MONTH_H, abs=1e-5)


def test_local_ssd_is_priced_separately_per_gib_month() -> None:
    for name, gib in (("a3-highgpu-8g", 6000), ("a3-highgpu-1g", 750), ("a2-ultragpu-8g", 3000)):
        price = google(name)
        assert not price.includes_local_ssd
        assert price.local_ssd_usd_per_hour == pytest.approx(0.08 * gib / MONTH_H, rel=0.01)
    assert (google("a3-highgpu-8g").on_demand_usd_per_hour or 0) + 0.6575 == pytest.approx(88.49)


@pytest.mark.parametrize(
    ("machine", "chips", "chip_usd"),
    [
        ("ct5lp-hightpu-1t", 1, 1.2),
        ("ct5lp-hightpu-4t", 4, 1.2),
        ("ct5lp-hightpu-8t", 8, 1.2),
        ("ct5p-hightpu-4t", 4, 4.2),
        ("ct6e-standard-8t", 8, 2.7),
    ],
)
def test_tpu_host_price_is_sum_of_chips(machine: str, chips: int, chip_usd: float) -> None:
    assert google(machine).on_demand_usd_per_hour == pytest.approx(chips * chip_usd)
    assert CATALOG.machine(machine).chip_count == chips


def test_price_has_date_of_its_list() -> None:
    for price in CATALOG.prices:
        if price.provider in ("azure", "oci"):
            assert price.date == datetime.date(2025, 9, 11)
            assert "not been refreshed" in price.note


def test_every_google_gpu_machine_or_sibling_has_price() -> None:
    priced = {
        price.machine
        for price in CATALOG.prices
        if price.provider == "google"
        and (price.on_demand_usd_per_hour or price.name.startswith("google/us-central1/tpu7x"))
    } | {"a4x-highgpu-4g", "a4x-maxgpu-4g-metal"}
    unpriced = {
        m.name for m in CATALOG.machines if m.provider == "google" and m.is_accelerated
    } - priced
    assert unpriced == {
        "g4-standard-6",
        "g4-standard-12",
        "g4-standard-24",
    }  # shares of a GPU: no list has them


def test_prices_of_other_providers_name_known_chips() -> None:
    price = PRICES["aws/us-east-1/p5.48xlarge"]
    assert (price.chip, price.chip_count) == ("h100-sxm", 8)
    assert CATALOG.chip(price.chip or "").vendor == "NVIDIA"


def test_regional_price_has_zones_of_its_region() -> None:
    zoned = [price for price in CATALOG.prices if price.zones]
    assert len({price.region for price in zoned}) > 30
    for price in zoned:
        assert all(zone.startswith(f"{price.region}-") for zone in price.zones), price.name
    assert google("a3-megagpu-8g", "europe-west4").on_demand_usd_per_hour is not None
    assert google("tpu7x-standard-4t").zones == ("us-central1-c",)
