"""Prices of Google's machines from the SKUs of the Cloud Billing Catalog API.

A machine is billed as its accelerators, its vCPUs and its memory, each an SKU per region and kind
of usage: price = chips x chip + vCPUs x core + GiB x RAM. An SKU names what it bills in its
description only, so the table below holds the words to look for. A machine of which a part has no
SKU gets no price: its built-in row stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from gpuyard.catalog.machines import Machine
from gpuyard.document.frozen_json import Plain

COMPUTE_ENGINE = "services/6F81-5844-456A"
# The catalog holds the GB that Google prints for machines; Google bills them as GiB.
MEMORY_UNIT_BYTES = 1e9
Tree = Mapping[str, Plain]
# SKUs of other contracts, and of machines that are configured freely.
OTHER = re.compile(
    r"custom|premium|reserved|sole tenancy|commitment|dws|calendar|vws|workstation", re.IGNORECASE
)
PREEMPTIBLE = re.compile(r"preemptible|spot", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sku:
    """One SKU: what it bills, where, and its price per unit and hour."""

    description: str
    group: str
    is_spot: bool
    regions: tuple[str, ...]
    usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSkus:
    """Words in the descriptions of a series' SKUs, and the metric of its quota.

    Descriptions as in SkyPilot's reader of the same API (skypilot-org/skypilot, fetch_gcp.py,
    2026-08): of several, the first that has an SKU counts.
    """

    chips: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # empty: the price of the accelerator includes the host
    quota: str = ""


A3 = ("A3 Instance",)
SERIES: Mapping[str, SeriesSkus] = {
    "A4": SeriesSkus(chips=("B200 (1 gpu slice)",), quota="NVIDIA_B200_GPUS"),
    "A3 Ultra": SeriesSkus(
        chips=("H200 141GB GPU",), hosts=("A3Ultra Instance", *A3), quota="NVIDIA_H200_GPUS"
    ),
    "A3 Mega": SeriesSkus(
        chips=("H100 80GB Mega GPU", "H100 Mega 80GB GPU", "H100 80GB Plus GPU"),
        hosts=("A3Plus Instance", *A3),
        quota="NVIDIA_H100_MEGA_GPUS",
    ),
    "A3 High": SeriesSkus(chips=("H100 80GB GPU",), hosts=A3, quota="NVIDIA_H100_GPUS"),
    "A3 Edge": SeriesSkus(chips=("H100 80GB GPU",), hosts=A3, quota="NVIDIA_H100_GPUS"),
    "A2 Ultra": SeriesSkus(
        chips=("A100 80GB GPU",), hosts=("A2 Instance",), quota="NVIDIA_A100_80GB_GPUS"
    ),
    "A2 Standard": SeriesSkus(
        chips=("A100 GPU",), hosts=("A2 Instance",), quota="NVIDIA_A100_GPUS"
    ),
    "G2": SeriesSkus(chips=("L4 GPU",), hosts=("G2 Instance",), quota="NVIDIA_L4_GPUS"),
    "G4": SeriesSkus(chips=("RTX PRO 6000", "RTX 6000 96GB"), hosts=("G4 Instance",)),
    "N1+T4": SeriesSkus(chips=("T4 GPU",), quota="NVIDIA_T4_GPUS"),
    "N1+V100": SeriesSkus(chips=("V100 GPU",), quota="NVIDIA_V100_GPUS"),
    "N1+P4": SeriesSkus(chips=("P4 GPU",), quota="NVIDIA_P4_GPUS"),
    "TPU v5e": SeriesSkus(chips=("TpuV5e",)),
    "TPU v5p": SeriesSkus(chips=("TpuV5p",)),
    "TPU v6e": SeriesSkus(chips=("TpuV6e",)),
    "C3": SeriesSkus(hosts=("C3 Instance",)),
    "N2": SeriesSkus(hosts=("N2 Instance",)),
    "H3": SeriesSkus(hosts=("H3 Instance",)),
    "H4D": SeriesSkus(hosts=("H4D Instance",)),
}


def read_skus(rows: Iterable[Tree]) -> Iterator[Sku]:
    """Yield the SKUs of machines on demand and on spot."""
    for row in rows:
        category = cast(Tree, row.get("category") or {})
        description = str(row.get("description") or "")
        usage = category.get("usageType")
        price = _unit_price(row)
        if (
            category.get("resourceFamily") != "Compute"
            or usage not in ("OnDemand", "Preemptible")
            or OTHER.search(description)
            or price is None
        ):
            continue
        yield Sku(
            description=description,
            group=str(category.get("resourceGroup") or ""),
            is_spot=usage == "Preemptible" or bool(PREEMPTIBLE.search(description)),
            regions=tuple(str(name) for name in cast(list[Plain], row.get("serviceRegions") or [])),
            usd_per_hour=price,
        )


def _unit_price(row: Tree) -> float | None:
    """The latest price per unit and hour in USD, of the last tier; None in another form."""
    prices = cast(list[Tree], row.get("pricingInfo") or [])
    expression = cast(Tree, prices[-1].get("pricingExpression") or {}) if prices else {}
    rates = cast(list[Tree], expression.get("tieredRates") or [])
    # GiBy.h: memory, per GiB and hour.
    if expression.get("usageUnit") not in ("h", "GiBy.h") or not rates:
        return None
    money = cast(Tree, rates[-1].get("unitPrice") or {})
    if money.get("currencyCode", "USD") != "USD":
        return None
    return float(str(money.get("units") or 0)) + float(str(money.get("nanos") or 0)) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class SkuTable:
    """SKUs by region and kind of usage."""

    rows: Mapping[tuple[str, bool], tuple[Sku, ...]]

    @classmethod
    def of(cls, skus: Iterable[Sku]) -> SkuTable:
        """Build the table."""
        rows: dict[tuple[str, bool], list[Sku]] = {}
        for sku in skus:
            for region in sku.regions:
                rows.setdefault((region, sku.is_spot), []).append(sku)
        return cls(rows={key: tuple(group) for key, group in rows.items()})

    def usd_per_hour(self, machine: Machine, region: str, *, spot: bool) -> float | None:
        """Return the hourly price of a machine; None if a part of it has no SKU.

        Of a machine that is attached to a host (N1), it is the price of the accelerators alone.
        """
        words = SERIES.get(machine.series)
        if words is None:
            return None
        total = 0.0
        if words.chips:
            chip = self._unit(region, spot, words.chips, "")
            if chip is None:
                return None
            total += chip * machine.chip_count
        if words.hosts:
            core = self._unit(region, spot, words.hosts, "core")
            ram = self._unit(region, spot, words.hosts, "ram")
            if core is None or ram is None or machine.vcpu_count is None:
                return None
            total += core * machine.vcpu_count + ram * machine.memory_bytes / MEMORY_UNIT_BYTES
        return total

    def _unit(self, region: str, spot: bool, words: tuple[str, ...], part: str) -> float | None:
        """The price of the first alternative that has an SKU; `part` is core, ram or the chip."""
        for text in words:
            for sku in self.rows.get((region, spot), ()):
                name = sku.description.casefold()
                if text.casefold() in name and (part in name if part else sku.group != "CPU"):
                    return sku.usd_per_hour
        return None
