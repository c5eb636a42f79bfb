"""Prices of today: the list prices of a machine's parts against the prices the plan was made with.

A machine is billed as its vCPUs, memory and GPUs, each a SKU of Compute Engine whose description
names the series or the GPU (https://cloud.google.com/skus; service 6F81-5844-456A).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from gpuyard.catalog.load import Catalog
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.preflight.check_row import CheckRow, ok, unknown, warning
from gpuyard.provision.preflight.cloud_reader import CloudReader, Reply
from gpuyard.provision.preflight.google_checks import Target

SKUS = "https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus"
MAX_PAGES = 40  # 5,000 SKUs each
TOLERANCE = 0.05  # spot prices change within a month; list prices rarely
SERIES = {"a2": "A2 Instance", "a3": "A3 Instance", "a4": "A4 Instance", "g2": "G2 Instance",
          "n1": "N1 Predefined Instance"}  # fmt: skip
GPUS: dict[str, tuple[str, ...]] = {
    "nvidia-l4": ("L4 GPU",),
    "nvidia-tesla-t4": ("T4 GPU",),
    "nvidia-tesla-p4": ("P4 GPU",),
    "nvidia-tesla-p100": ("P100 GPU",),
    "nvidia-tesla-v100": ("V100 GPU",),
    "nvidia-tesla-a100": ("A100 GPU",),
    "nvidia-a100-80gb": ("A100 80GB GPU",),
    "nvidia-h100-80gb": ("H100 80GB GPU",),
    "nvidia-h100-mega-80gb": ("H100 80GB Mega GPU", "H100 Mega 80GB GPU", "H100 80GB Plus GPU"),
    "nvidia-h200-141gb": ("H200 141GB GPU",),
    "nvidia-b200": ("Nvidia B200 (1 gpu slice)",),
}
OTHER = ("custom", "premium", "reserved", "sole tenancy", "dws")  # billed for something else
Tree = dict[str, Plain]


def price_rows(target: Target, reader: CloudReader, catalog: Catalog) -> Iterator[CheckRow]:
    """The plan's price of a machine is today's."""
    machine, bill = target.blueprint.machine, target.blueprint.bill
    series, gpus = SERIES.get(machine.name.split("-")[0], ""), GPUS.get(machine.api_name, ())
    planned = _planned(target, catalog)
    if bill is None or planned is None:
        yield unknown("price", machine.name, "the plan has no price", "add one to your catalog")
        return
    if not series or not gpus or machine.vcpu_count is None:
        yield unknown("price", machine.name, f"no known SKUs; the plan has ${planned:.2f} per hour")
        return
    is_spot = target.blueprint.consumption == "spot"
    skus: list[Tree] = []
    for reply in _pages(reader):
        if reply.error:
            yield reply.as_unknown("price", machine.name)
            return
        rows = reply.tree.get("skus")
        skus += [row for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict)]
    offered = [sku for sku in skus if _is_offered(sku, bill.region, is_spot=is_spot)]
    parts = (
        _unit(offered, (f"{series} Core", f"{series} CPU"), machine.vcpu_count),
        _unit(offered, (f"{series} Ram", f"{series} RAM"), machine.memory_bytes / 2.0**30),
        _unit(offered, gpus, machine.chip_count),
    )
    if None in parts:
        what = f"a part has no SKU in {bill.region}; the plan has ${planned:.2f} per hour"
        yield unknown("price", machine.name, what, "compare it with the price list")
        return
    today = sum(part for part in parts if part is not None)
    what = f"${today:.2f} per hour today, ${planned:.2f} in the plan"
    if abs(today - planned) <= TOLERANCE * planned:
        yield ok("price", machine.name, what)
    else:
        fix = "add today's price to your own catalog file, then plan and render again"
        yield warning("price", machine.name, f"{what} ({today / planned - 1.0:+.0%})", fix)


def _planned(target: Target, catalog: Catalog) -> float | None:
    """Price of one machine in the plan's rows of the catalog, else in the plan itself."""
    bill = target.blueprint.bill
    if bill is None:
        return None
    names = {bill.price, bill.host_price} - {""}
    column = "spot_usd_per_hour" if bill.consumption == "spot" else "on_demand_usd_per_hour"
    prices = [getattr(row, column) for row in catalog.prices if row.name in names]
    if not prices or None in prices:
        return bill.usd_per_hour / target.blueprint.machine_count
    return float(sum(prices))


def _pages(reader: CloudReader) -> Iterator[Reply]:
    token = ""
    for _ in range(MAX_PAGES):
        more = f"&pageToken={token}" if token else ""
        reply = reader.get(f"{SKUS}?currencyCode=USD&pageSize=5000{more}")
        yield reply
        token = str(reply.tree.get("nextPageToken") or "")
        if reply.error or not token:
            return


def _is_offered(sku: Tree, region: str, *, is_spot: bool) -> bool:
    category = cast(Tree, sku.get("category") or {})
    regions = sku.get("serviceRegions")
    usage = "Preemptible" if is_spot else "OnDemand"
    text = str(sku.get("description", "")).lower()
    return (
        category.get("usageType") == usage
        and isinstance(regions, list)
        and region in regions
        and not any(word in text for word in OTHER)
    )


def _unit(skus: list[Tree], names: tuple[str, ...], count: float) -> float | None:
    """Price of `count` units of the first SKU whose description has one of these names."""
    for sku in skus:
        if any(name in str(sku.get("description")) for name in names):
            return _usd(sku) * count
    return None


def _usd(sku: Tree) -> float:
    info = cast(list[Tree], sku["pricingInfo"])[-1]
    rates = cast(list[Tree], cast(Tree, info["pricingExpression"])["tieredRates"])
    unit = cast(Tree, rates[-1]["unitPrice"])
    return float(str(unit.get("units") or 0)) + float(str(unit.get("nanos") or 0)) / 1e9
