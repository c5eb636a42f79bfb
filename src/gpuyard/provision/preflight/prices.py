"""Prices of today: the SKUs of a machine's parts against the prices the plan was made with."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.google_skus import COMPUTE_ENGINE, SERIES, SkuTable, read_skus
from gpuyard.catalog.load import Catalog
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.preflight.check_row import CheckRow, ok, unknown, warning
from gpuyard.provision.preflight.cloud_reader import CloudReader, Reply
from gpuyard.provision.preflight.google_checks import Target

SKUS = f"https://cloudbilling.googleapis.com/v1/{COMPUTE_ENGINE}/skus"
MAX_PAGES = 40  # 5,000 SKUs each
TOLERANCE = 0.05  # spot prices change within a month; list prices rarely


def price_rows(target: Target, reader: CloudReader, catalog: Catalog) -> Iterator[CheckRow]:
    """The plan's price of a machine is today's; of accelerators attached to a host, theirs."""
    machine, bill = target.blueprint.machine, target.blueprint.bill
    planned = _planned(target, catalog)
    if bill is None or not planned:
        yield unknown("price", machine.name, "the plan has no price", "add one to your catalog")
        return
    if machine.series not in SERIES:
        yield unknown("price", machine.name, f"no known SKUs; the plan has ${planned:.2f} per hour")
        return
    skus: list[dict[str, Plain]] = []
    for reply in _pages(reader):
        if reply.error:
            yield reply.as_unknown("price", machine.name)
            return
        rows = reply.tree.get("skus")
        skus += [row for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict)]
    is_spot = target.blueprint.consumption == "spot"
    today = SkuTable.of(read_skus(skus)).usd_per_hour(machine, bill.region, spot=is_spot)
    if today is None:
        what = f"a part has no SKU in {bill.region}; the plan has ${planned:.2f} per hour"
        yield unknown("price", machine.name, what, "compare it with the price list")
        return
    what = f"${today:.2f} per hour today, ${planned:.2f} in the plan"
    if abs(today - planned) <= TOLERANCE * planned:
        yield ok("price", machine.name, what)
    else:
        fix = "add today's price to your own catalog file, then plan and render again"
        yield warning("price", machine.name, f"{what} ({today / planned - 1.0:+.0%})", fix)


def _planned(target: Target, catalog: Catalog) -> float | None:
    """Price of one machine in the plan's row of the catalog, else in the plan itself."""
    bill = target.blueprint.bill
    if bill is None:
        return None
    column = "spot_usd_per_hour" if bill.consumption == "spot" else "on_demand_usd_per_hour"
    usd = next((getattr(row, column) for row in catalog.prices if row.name == bill.price), None)
    if usd is not None:
        return float(usd)
    # The plan has one price for the machine and its host.
    return None if bill.host_price else bill.usd_per_hour / target.blueprint.machine_count


def _pages(reader: CloudReader) -> Iterator[Reply]:
    token = ""
    for _ in range(MAX_PAGES):
        more = f"&pageToken={token}" if token else ""
        reply = reader.get(f"{SKUS}?currencyCode=USD&pageSize=5000{more}")
        yield reply
        token = str(reply.tree.get("nextPageToken") or "")
        if reply.error or not token:
            return
