"""A catalog layer with today's prices, zones and quotas of Google Cloud.

Built from what the Cloud Billing Catalog API and the Compute Engine API return for a project. A row
replaces the built-in one and keeps what the APIs do not state: commitments and Local SSD.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from gpuyard.catalog.google_skus import SERIES, SkuTable, Tree, read_skus
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.prices import Price
from gpuyard.catalog.quotas import Quota
from gpuyard.catalog.rows import Source
from gpuyard.document.frozen_json import Plain

SOURCE = "google-apis"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleAnswers:
    """Rows that the APIs returned."""

    skus: tuple[Tree, ...]
    machine_types: tuple[Tree, ...]
    accelerator_types: tuple[Tree, ...]
    regions: tuple[Tree, ...]


def google_layer(answers: GoogleAnswers, catalog: Catalog, today: datetime.date) -> Catalog:
    """Return the layer: prices of every machine and region, and the quotas of the project."""
    table = SkuTable.of(read_skus(answers.skus))
    zones = _zones(answers)
    prices = [
        price
        for machine in catalog.machines
        if machine.provider == "google" and machine.series in SERIES
        for region, names in zones.get(_offered_as(machine), {}).items()
        if (price := _price(machine, region, names, table, catalog, today)) is not None
    ]
    source = Source(
        name=SOURCE,
        title="Cloud Billing Catalog API (SKUs) and Compute Engine API (machine types, regions)",
        url="https://cloud.google.com/billing/v1/how-tos/catalog-api",
        date=today,
    )
    return Catalog(
        sources=(source,), prices=tuple(prices), quotas=tuple(_quotas(answers.regions, today))
    )


def unpriced_series(layer: Catalog, catalog: Catalog) -> tuple[str, ...]:
    """Return the series of Google's machines that got no price: their built-in rows stay."""
    priced = {catalog.machine(price.machine).series for price in layer.prices}
    machines = (machine for machine in catalog.machines if machine.provider == "google")
    return tuple(sorted({machine.series for machine in machines} - priced))


def _offered_as(machine: Machine) -> str:
    """The accelerator of a machine that is attached to an N1 host, otherwise the machine."""
    return machine.api_name if machine.series.startswith("N1+") else machine.name


def _zones(answers: GoogleAnswers) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Zones by region of each machine type and accelerator type."""
    zones: dict[str, dict[str, set[str]]] = {}
    for row in (*answers.machine_types, *answers.accelerator_types):
        zone = str(row.get("zone") or "").rpartition("/")[2]
        region = zone.rpartition("-")[0]
        if region:
            zones.setdefault(str(row.get("name")), {}).setdefault(region, set()).add(zone)
    return {
        name: {region: tuple(sorted(group)) for region, group in regions.items()}
        for name, regions in zones.items()
    }


def _price(
    machine: Machine,
    region: str,
    zones: tuple[str, ...],
    table: SkuTable,
    catalog: Catalog,
    today: datetime.date,
) -> Price | None:
    on_demand = table.usd_per_hour(machine, region, spot=False)
    spot = table.usd_per_hour(machine, region, spot=True)
    if on_demand is None and spot is None:
        return None
    name = f"google/{region}/{machine.name}"
    known = next((row for row in catalog.prices if row.name == name), None)
    sibling = next((row for row in catalog.prices if row.machine == machine.name), None)
    base = known or Price(
        name=name,
        provider="google",
        region=region,
        machine=machine.name,
        date=today,
        source=(SOURCE,),
        covers=sibling.covers if sibling else "machine",
        local_ssd_usd_per_hour=sibling.local_ssd_usd_per_hour if sibling else None,
        on_demand_can_be_created=sibling.on_demand_can_be_created if sibling else True,
    )
    return replace(
        base,
        date=today,
        zones=zones,
        source=(SOURCE,),
        on_demand_usd_per_hour=_rounded(on_demand),
        spot_usd_per_hour=_rounded(spot),
    )


def _rounded(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 6)


def _quotas(regions: Iterable[Tree], today: datetime.date) -> Iterable[Quota]:
    """Quotas of accelerators, on demand and preemptible."""
    metrics = {words.quota for words in SERIES.values() if words.quota}
    for region in regions:
        name = str(region.get("name"))
        for row in cast(list[Mapping[str, Plain]], region.get("quotas") or []):
            metric = str(row.get("metric"))
            if metric.removeprefix("PREEMPTIBLE_") in metrics:
                yield Quota(
                    name=f"google/{name}/{metric}",
                    provider="google",
                    region=name,
                    metric=metric,
                    limit_count=float(str(row.get("limit") or 0)),
                    used_count=float(str(row.get("usage") or 0)),
                    date=today,
                    source=(SOURCE,),
                )
