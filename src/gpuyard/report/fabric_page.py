"""A fabric as one offline page: drawing, devices and links on hover, findings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from html import escape

from gpuyard.errors import Finding, Severity
from gpuyard.fabric.fabric import Device, Fabric
from gpuyard.fabric.verify.finding import Verification
from gpuyard.report.fabric import facts_table, findings_table
from gpuyard.report.fabric_scene import scene
from gpuyard.report.fabric_svg import fabric_svg, topology_svg
from gpuyard.report.page import asset, html_table, page
from gpuyard.topology.topology import Topology
from gpuyard.units import BITS_PER_S, show

Plain = dict[str, object]


def fabric_page(
    fabric: Fabric, verification: Verification | None = None, title: str = "Fabric"
) -> str:
    """The page of a designed fabric."""
    findings = verification.findings if verification else ()
    names = {device.name for device in fabric.devices}
    marks = marks_of(findings, names)
    drawn = {box.name for box in scene(fabric.topology, marks).boxes}
    devices: Plain = {
        device.name: _device(device, device.name in drawn) for device in fabric.devices
    }
    sections = [
        asset("fabric.css"),
        _drawing(fabric_svg(fabric, marks), devices),
        *_findings(verification, names),
        f"<h2>Size</h2>{html_table(facts_table(fabric))}",
        _list("Why it is built like this", (*fabric.reasons, *fabric.limits)),
        _list("What is not known or not covered", fabric.lossless.notes),
        asset("fabric.js"),
    ]
    return page(title, sections)


def topology_page(
    topology: Topology, verification: Verification | None = None, title: str = "Cabling"
) -> str:
    """The page of cabling alone, such as imported cabling."""
    findings = verification.findings if verification else ()
    names = {node.name for node in topology.nodes}
    marks = marks_of(findings, names)
    drawn = {box.name for box in scene(topology, marks).boxes}
    ports: dict[str, list[list[str]]] = {name: [] for name in names}
    for link in topology.links:
        for end in link.ends:
            far = link.far_from(end.node)
            ports[end.node].append(
                [end.port, far.node, far.port, "", show(link.speed_bits_per_s, BITS_PER_S)]
            )
    devices: Plain = {
        node.name: {
            "facts": [["role", node.role], *([["model", node.model]] if node.model else [])],
            **({"ports": ports[node.name]} if node.name in drawn else {}),
        }
        for node in topology.nodes
    }
    drawing = topology_svg(
        topology, f"{len(names):,} devices, {len(topology.links):,} links", marks
    )
    return page(
        title,
        [
            asset("fabric.css"),
            _drawing(drawing, devices),
            *_findings(verification, names),
            asset("fabric.js"),
        ],
    )


def marks_of(findings: Iterable[Finding], names: set[str]) -> dict[str, Severity]:
    """Worst severity of the findings about each device."""
    marks: dict[str, Severity] = {}
    for finding in findings:
        name = _device_in(finding.where, names)
        if name and finding.severity != "note":
            marks.setdefault(name, finding.severity)
    return marks


def _device_in(where: str, names: set[str]) -> str | None:
    first = re.split(r"[ :]", where, maxsplit=1)[0]
    return first if first in names else None


def _device(device: Device, drawn: bool) -> Plain:
    """Details of a device; ports only for devices that are drawn."""
    pairs = (
        ("role", device.role),
        ("model", device.model),
        ("system", device.os),
        ("AS", device.asn),
        ("loopback", device.loopback),
        ("rack", device.rack),
        ("stripe", None if device.stripe is None else device.stripe + 1),
        ("rail", None if device.rail is None else device.rail + 1),
        ("plane", None if device.plane is None else device.plane + 1),
    )
    details: Plain = {
        "facts": [[name, str(value)] for name, value in pairs if value not in (None, "")]
    }
    if drawn:
        details["ports"] = [
            [
                port.port,
                port.peer.node,
                port.peer.port,
                port.address or "",
                show(port.speed_bits_per_s, BITS_PER_S),
            ]
            for port in device.interfaces
        ]
    return details


def _drawing(svg: str, devices: Mapping[str, object]) -> str:
    # "<" is escaped, so that no text can end the script element.
    data = json.dumps({"devices": devices}, ensure_ascii=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    return (
        '<div class="fabric"><div class="drawing">'
        + svg
        + '</div><div class="side"><input id="find" class="find" placeholder="find a device by'
        ' name" aria-label="find a device by name"><div id="about" class="about">Point at a'
        ' device or a link; click to keep it.</div></div></div><script type="application/json"'
        f' id="fabric-data">{data}</script>'
    )


def _findings(verification: Verification | None, names: set[str]) -> list[str]:
    if verification is None:
        return []
    rows = "".join(
        f'<tr class="{finding.severity}"{_pointer(finding, names)}>'
        f"<td>{finding.severity}</td><td>{finding.rule}</td>"
        f"<td>{escape(finding.where)}{_more(finding)}</td><td>{escape(finding.what)}</td>"
        f"<td>{escape(finding.fix)}</td></tr>"
        for finding in verification.findings
    )
    head = "".join(f"<th>{column.heading}</th>" for column in findings_table(verification).columns)
    ran = "".join(
        f"<tr><td>{row.verdict}</td><td>{row.name}</td><td>{escape(row.verifies)}</td><td>{escape(row.why)}</td></tr>"
        for row in verification.checks
    )
    finding_rows = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    checks = f"<summary>{len(verification.checks)} checks</summary>" + _scroll(
        f"<table>{ran}</table>"
    )
    return [f"<h2>Findings</h2>{_scroll(finding_rows)}", f"<details>{checks}</details>"]


def _scroll(table: str) -> str:
    return f'<div class="scroll">{table}</div>'


def _pointer(finding: Finding, names: set[str]) -> str:
    """HTML attribute that links a finding to its device."""
    name = _device_in(finding.where, names)
    return f' data-device="{escape(name)}" style="cursor:pointer"' if name else ""


def _more(finding: Finding) -> str:
    return f" and {finding.place_count - 1:,} more" if finding.place_count > 1 else ""


def _list(title: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>" if items else ""
