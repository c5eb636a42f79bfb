"""The physical plan as tables and as one offline page: from the hall to the port of a device."""

from __future__ import annotations

import json

from gpuyard.fabric.physical.rack_plan import AIR_J_PER_M3_K, AIR_RISE_K, RackPlan
from gpuyard.report.fabric import listed_findings
from gpuyard.report.page import asset, html_table, page
from gpuyard.report.table import NOT_KNOWN, Table, table_columns
from gpuyard.units import BITS_PER_S, LENGTH, POWER, show


def plan_facts(plan: RackPlan) -> Table:
    """The plan in a few lines."""
    bound = "at least " if plan.unknown_count else ""
    hottest = max(plan.racks, key=lambda rack: rack.power_w)
    rows = [
        ("racks", f"{len(plan.racks):,} of {plan.settings.units} units, {plan.row_count} rows"),
        ("power", f"{bound}{show(plan.power_w, POWER)}"),
        ("hottest rack", f"{hottest.name}, {show(hottest.power_w, POWER)}"),
        ("cables", f"{len(plan.cables):,} links"),
    ]
    rows += [
        (
            f"longest to {row.tier}, {row.network}",
            f"{row.longest_m:.1f} m (designed for {show(row.designed_m, LENGTH)})",
        )
        for row in plan.lengths
    ]
    priced = sum(line.unit_usd is not None for line in plan.order)
    rows.append(
        (
            "price",
            f"{plan.price_usd:,.0f} USD for {priced} of {len(plan.order)} lines"
            if priced
            else "no prices in the catalog; set price_usd in a layer of yours",
        )
    )
    return Table(columns=table_columns("rack plan", ""), rows=tuple(rows))


def order_table(plan: RackPlan) -> Table:
    """The lines of the order."""
    return Table(
        columns=table_columns("kind", "part number", "what", ">count", ">W each", ">USD each"),
        rows=tuple(
            (
                line.kind,
                line.part or NOT_KNOWN,
                line.what,
                f"{line.count:,}",
                NOT_KNOWN if line.unit_w is None else f"{line.unit_w:g}",
                NOT_KNOWN if line.unit_usd is None else f"{line.unit_usd:,.0f}",
            )
            for line in plan.order
        ),
    )


def rack_page(plan: RackPlan, title: str = "Rack plan") -> str:
    """Return the page: drawing with search and keyboard, facts, order and findings."""
    search = (
        '<div class="bar"><nav class="crumbs" id="crumbs"></nav>'
        '<div style="flex:1"><input id="find" type="search" autocomplete="off" style="width:100%"'
        ' placeholder="search every device and rack ( / )" aria-label="search">'
        '<div class="matches" id="matches" hidden></div></div></div>'
        '<div class="hall" id="hall"></div><p class="note">arrow keys move, Enter opens, Escape'
        " goes back, / searches</p>"
    )
    findings = (
        f"<h2>Findings</h2>{html_table(listed_findings(plan.findings))}" if plan.findings else ""
    )
    text = json.dumps(_plain(plan), separators=(",", ":")).replace("<", "\\u003c")
    sections = [
        asset("rack_plan.css"),
        search,
        findings,
        f"<h2>Plan</h2>{html_table(plan_facts(plan))}",
        f"<h2>Order</h2>{html_table(order_table(plan))}",
        f'<script type="application/json" id="rack-plan">{text}</script>',
        asset("rack_plan.js"),
    ]
    return page(title, sections)


def _plain(plan: RackPlan) -> dict[str, object]:
    """The plan as small numbers: names once, links in columns."""
    ports: dict[str, int] = {}
    speeds: dict[str, int] = {}
    media: dict[str, int] = {}
    device_of: dict[str, int] = {}
    devices: list[list[object]] = []
    for number, rack in enumerate(plan.racks):
        for slot in rack.slots:
            device_of[slot.device] = len(devices)
            power_w = None if slot.power_w is None else round(slot.power_w + slot.optics_w)
            devices.append(
                [slot.device, slot.role, slot.model, number, slot.unit, slot.units, power_w]
            )
    cables = plan.cables
    return {
        "units": plan.settings.units,
        "air": AIR_J_PER_M3_K * AIR_RISE_K,
        "racks": [
            [rack.name, rack.kind, rack.row, rack.place, rack.used_units, round(rack.power_w)]
            for rack in plan.racks
        ],
        "devices": devices,
        "links": {
            "a": [device_of[cable.lower.node] for cable in cables],
            "pa": [ports.setdefault(cable.lower.port, len(ports)) for cable in cables],
            "b": [device_of[cable.upper.node] for cable in cables],
            "pb": [ports.setdefault(cable.upper.port, len(ports)) for cable in cables],
            "m": [cable.length_m for cable in cables],
            "s": [
                speeds.setdefault(show(cable.speed_bits_per_s, BITS_PER_S), len(speeds))
                for cable in cables
            ],
            "k": [media.setdefault(cable.medium, len(media)) for cable in cables],
        },
        "ports": list(ports),
        "speeds": list(speeds),
        "media": list(media),
    }
