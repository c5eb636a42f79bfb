"""The fabric of a plan: its drawing inside the page, its racks and devices, a device's ports."""

from __future__ import annotations

import functools
from collections import Counter
from html import escape
from pathlib import Path

from gpuyard.app.planner import builtin_catalog
from gpuyard.app.up_report import PlanningResults
from gpuyard.app.up_results import planned_of
from gpuyard.catalog.load import Catalog, overlay
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.fabric import Device, Fabric, Interface
from gpuyard.fabric.physical.rack_plan import rack_plan
from gpuyard.report.fabric_page import fabric_page
from gpuyard.report.page import html_table
from gpuyard.report.rack_page import rack_page
from gpuyard.report.table import NOT_KNOWN, Table, table_columns
from gpuyard.units import BITS_PER_S, show
from gpuyard.web.catalog_view import FILTER
from gpuyard.web.plans_view import FileStamp, file_stamp, plan_folder
from gpuyard.web.view import Fragment, NotFoundError, PageRequest, WebPage, link, linked_table

MOST_DEVICES = 400  # rows of a page; the others are reached by rack


def fabric_view(request: PageRequest) -> WebPage:
    """The drawing in its own frame, and the racks or devices to walk through."""
    name = request.words["name"]
    fabric = _fabric(_planned(request))
    address = f"/plans/{name}/fabric"
    shown = "hall" if request.query.get("view") == "racks" else "drawing"
    drawing = (
        f"<p>{link(address, 'Topology')} · {link(f'{address}?view=racks', 'Rows, racks, ports')} ·"
        f" {link(f'{address}/{shown}', 'This drawing alone')}</p>"
        f'<iframe class="drawing" title="Drawing of the fabric" src="{escape(address)}/{shown}"'
        ' sandbox="allow-scripts allow-downloads"></iframe>'
    )
    rack = request.query.get("rack", "")
    devices = [item for item in fabric.devices if not rack or _rack(item) == rack]
    if not devices:
        raise NotFoundError
    racks = Counter(map(_rack, fabric.devices))
    places = " ".join(
        f"<li>{link(f'{address}?rack={place}', place)} <small>{count}</small></li>"
        for place, count in racks.items()
    )
    every = f"<li>{link(address, 'all')}</li>" if rack else ""
    title = f"<h2>{escape(rack or 'Devices')}</h2>"
    note = f"<p>The first {MOST_DEVICES} of {len(devices):,}; choose a rack for the others.</p>"
    listed = devices[:MOST_DEVICES]
    table = linked_table(
        _devices(listed), [f"{address}/device?name={item.name}" for item in listed]
    )
    fragments = (
        Fragment(id="drawing", html=drawing),
        Fragment(
            id="racks", html=f'<h2>Racks and rows</h2><ul class="inline">{every}{places}</ul>'
        ),
        Fragment(
            id="devices",
            html=f"{title}{note if len(devices) > MOST_DEVICES else ''}{FILTER}{table}",
        ),
    )
    return WebPage(
        title=f"Fabric of {name}",
        fragments=fragments,
        is_live=False,
        above=(f"/plans/{name}", f"Plan {name}"),
    )


def device_view(request: PageRequest) -> WebPage:
    """One device: what it is, and where every port leads."""
    name, wanted = request.words["name"], request.query.get("name", "")
    planned = _planned(request)
    fabric, verification = _fabric(planned), planned.findings
    device = next((item for item in fabric.devices if item.name == wanted), None)
    if device is None:
        raise NotFoundError
    address = f"/plans/{name}/fabric"
    facts = [
        ("role", device.role),
        ("model", device.model or NOT_KNOWN),
        ("rack", _rack(device)),
        ("OS", device.os or NOT_KNOWN),
        ("AS number", str(device.asn or NOT_KNOWN)),
        ("loopback", device.loopback or NOT_KNOWN),
    ]
    table = Table(columns=table_columns("device", ""), rows=tuple(facts))
    peers = [f"{address}/device?name={port.peer.node}" for port in device.interfaces]
    ports = linked_table(_ports(device.interfaces), peers)
    finding_rows = [
        (finding.rule, finding.severity, finding.what, finding.fix)
        for finding in (verification.findings if verification is not None else ())
        if device.name in finding.where
    ]
    findings = Table(
        columns=table_columns("rule", "severity", "what", "fix"),
        rows=tuple(finding_rows),
    )
    proof = f"<h2>Findings</h2>{html_table(findings)}" if finding_rows else ""
    return WebPage(
        title=device.name,
        fragments=(
            Fragment(id="device", html=html_table(table)),
            Fragment(id="ports", html=f"<h2>Ports</h2>{FILTER}{ports}"),
            Fragment(id="findings", html=proof),
        ),
        is_live=False,
        above=(f"{address}?rack={_rack(device)}", _rack(device)),
    )


def fabric_document(request: PageRequest) -> str:
    """A drawing as a separate page: the topology with its findings, or the hall with its racks."""
    planned, name = _planned(request), request.words["name"]
    fabric = _fabric(planned)
    if request.words["drawing"] == "drawing":
        return fabric_page(fabric, planned.findings, name)
    catalog = overlay(builtin_catalog(), planned.catalog or Catalog())
    racks = rack_plan([fabric], catalog)
    if isinstance(racks, Infeasible):
        raise InputError.one(racks.binding, racks.what, racks.fix)
    return rack_page(racks, name)


def _planned(request: PageRequest) -> PlanningResults:
    folder = plan_folder(request.home, request.words["name"])
    return _read(folder, file_stamp(folder))


@functools.lru_cache(maxsize=2)
def _read(folder: Path, stamp: FileStamp) -> PlanningResults:  # noqa: ARG001
    """The values of a plan, read once while somebody walks through its fabric."""
    return planned_of(folder)


def _fabric(planned: PlanningResults) -> Fabric:
    if planned.fabric is None:
        raise NotFoundError
    return planned.fabric


def _rack(device: Device) -> str:
    """Where a device is: its rack, else its stripe or its tier."""
    if device.rack:
        return device.rack
    return f"stripe {device.stripe}" if device.stripe is not None else f"{device.role}s"


def _devices(devices: list[Device]) -> Table:
    headings = ("device", "role", "model", "rack", "ports", "AS number", "loopback")
    return Table(
        columns=table_columns(*headings, numeric=("ports", "AS number")),
        rows=tuple(
            (
                device.name,
                device.role,
                device.model or NOT_KNOWN,
                _rack(device),
                str(len(device.interfaces)),
                str(device.asn or NOT_KNOWN),
                device.loopback or NOT_KNOWN,
            )
            for device in devices
        ),
    )


def _ports(ports: tuple[Interface, ...]) -> Table:
    """Ports with the peer first, which is the link."""
    headings = ("to", "port", "peer port", "speed", "address")
    return Table(
        columns=table_columns(*headings),
        rows=tuple(
            (
                port.peer.node,
                port.port,
                port.peer.port,
                show(port.speed_bits_per_s, BITS_PER_S),
                port.address or NOT_KNOWN,
            )
            for port in ports
        ),
    )
