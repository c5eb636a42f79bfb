"""A fabric drawing as SVG: rails in colours, repeated parts collapsed, tooltips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from gpuyard.errors import Severity
from gpuyard.fabric.fabric import Fabric
from gpuyard.report.fabric_scene import Box, DrawnLink, Gap, Panel, Scene, scene
from gpuyard.report.svg import PALETTE
from gpuyard.topology.topology import Topology
from gpuyard.units import BITS_PER_S, show

MARKS: dict[Severity, str] = {"error": "#d1242f", "warning": "#bf8700", "note": "#0969da"}
RAILS = tuple(
    "#b39b00" if colour == "#f0e442" else colour for colour in PALETTE
)  # yellow is too pale for a line
CROWD = 240
INK, PAPER = "#1f2328", "#ffffff"
FILLS = {"core": "#eaeef2", "spine": "#dde5ee", "leaf": "#ffffff", "server": "#f6f8fa"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tint:
    """Colour of a link that shows something other than its rail, with a tooltip."""

    colour: str
    words: str


def fabric_svg(fabric: Fabric, marks: Mapping[str, Severity] | None = None) -> str:
    """Draw a designed fabric."""
    size, demand = fabric.size, fabric.demand
    ratio = f"{size.oversubscription_ratio:.3g}:1" if size.spines else "no spines"
    words = [
        f"{size.gpus:,} GPUs",
        f"{demand.server_count:,} server{'s' if demand.server_count > 1 else ''}",
        demand.shape,
        ratio,
        demand.purpose,
    ]
    if demand.planes > 1:
        words.insert(3, f"{demand.planes} planes")
    return topology_svg(fabric.topology, ", ".join(words), marks)


def topology_svg(
    topology: Topology,
    title: str = "",
    marks: Mapping[str, Severity] | None = None,
    tints: Mapping[tuple[str, str], Tint] | None = None,
) -> str:
    """Draw any topology; `marks` colours devices with findings, `tints` colours links."""
    drawn = scene(topology, marks or {})
    body = [_panel(panel) for panel in drawn.panels]
    crowded, tinted = len(drawn.cables) > CROWD, tints or {}
    body += [
        _cable(cable, tinted.get((cable.lower, cable.upper)), crowded=crowded)
        for cable in sorted(drawn.cables, key=lambda cable: cable.lower.startswith("server"))
    ]
    body += [_box(box, (marks or {}).get(box.name)) for box in drawn.boxes]
    body += [_gap(gap) for gap in drawn.gaps]
    body += [_label(panel) for panel in drawn.panels if panel.label]
    body += [_caption(y, lines) for _, y, lines in drawn.captions]
    body.append(_between(topology, drawn))
    if title:
        body.append(f'<text x="16" y="26" font-size="15" font-weight="600">{escape(title)}</text>')
    if tints is None:
        body.append(_rails(topology, drawn))
    return (
        f'<svg viewBox="0 0 {drawn.width:.0f} {drawn.height:.0f}" width="{drawn.width:.0f}" '
        f'height="{drawn.height:.0f}" role="img" aria-label="network" '
        'xmlns="http://www.w3.org/2000/svg" '
        f'style="min-width:{0.6 * drawn.width:.0f}px" '
        f'font-family="system-ui,sans-serif" font-size="11" fill="{INK}">'
        f'<rect width="100%" height="100%" fill="{PAPER}" rx="6"/>{"".join(body)}</svg>'
    )


def _colour(rail: int | None) -> str:
    return "#6e7781" if rail is None else RAILS[rail % len(RAILS)]


def _panel(panel: Panel) -> str:
    stroke = "#d8dee4" if panel.faint else "#afb8c1"
    fill = "none" if panel.faint else "#f6f8fa"
    return (
        f'<rect x="{panel.x:.1f}" y="{panel.y:.1f}" width="{panel.width:.1f}"'
        f' height="{panel.height:.1f}" rx="6" fill="{fill}" stroke="{stroke}"/>'
    )


def _label(panel: Panel) -> str:
    """Name of a frame: at the top for a plane, where no links are, else at the bottom."""
    y = panel.y + 13 if panel.faint else panel.y + panel.height - 8
    return f'<text x="{panel.x + 10:.1f}" y="{y:.1f}" fill="#57606a">{escape(panel.label)}</text>'


def _cable(cable: DrawnLink, tint: Tint | None, *, crowded: bool) -> str:
    tooltip = (
        f"{cable.lower} – {cable.upper}: {cable.count} × {show(cable.speed_bits_per_s, BITS_PER_S)}"
    )
    width = min(1.2, 0.6 + 0.1 * cable.count) if crowded else min(3.0, 0.8 + 0.25 * cable.count)
    colour, opacity = (
        (tint.colour, 0.9) if tint else (_colour(cable.rail), 0.35 if crowded else 0.5)
    )
    tooltip = f"{tooltip}, {tint.words}" if tint else tooltip
    return (
        f'<path class="cable" data-a="{escape(cable.lower)}" data-b="{escape(cable.upper)}" '
        f'd="M{cable.x1:.1f} {cable.y1:.1f}L{cable.x2:.1f} {cable.y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:.2f}" stroke-opacity="{opacity}" fill="none">'
        f"<title>{escape(tooltip)}</title></path>"
    )


def _box(box: Box, mark: Severity | None) -> str:
    stroke = MARKS[mark] if mark else _colour(box.rail) if box.role == "leaf" else "#57606a"
    width = 2.5 if mark else 1.5 if box.role == "leaf" else 1
    return (
        f'<g class="device" data-name="{escape(box.name)}"><title>{escape(box.name)}</title><rect'
        f' x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="4"'
        f' fill="{FILLS[box.role]}" stroke="{stroke}" stroke-width="{width}"/><text'
        f' x="{box.middle:.1f}" y="{box.y + box.height / 2 + 4:.1f}"'
        f' text-anchor="middle">{escape(box.label)}</text></g>'
    )


def _gap(gap: Gap) -> str:
    first = gap.y - 7 * (len(gap.lines) - 1)
    rows = "".join(
        f'<tspan x="{gap.x:.1f}" y="{first + 14 * place + 4:.1f}">{escape(line)}</tspan>'
        for place, line in enumerate(gap.lines)
    )
    return f'<text text-anchor="middle" font-weight="600" fill="#57606a">{rows}</text>'


def _caption(y: float, lines: tuple[str, ...]) -> str:
    rows = "".join(
        '<tspan x="16"'
        f' y="{y + 12 + 14 * place:.1f}"'
        f"{' fill=' + chr(34) + '#57606a' + chr(34) if place else ''}>"
        f"{escape(line)}</tspan>"
        for place, line in enumerate(lines)
    )
    return f"<text>{rows}</text>"


def _between(topology: Topology, drawn: Scene) -> str:
    """Links per device and their speed between two rows."""
    roles = {node.name: node.role for node in topology.nodes}
    heights = {role: y for role, y, _ in drawn.captions}
    lines = []
    for lower, upper in (("server", "leaf"), ("leaf", "spine"), ("spine", "core")):
        if lower not in heights or upper not in heights:
            continue
        name = next((box.name for box in drawn.boxes if box.role == lower), "")
        own = [
            link
            for link in topology.links
            if name in (link.a.node, link.b.node) and roles[link.far_from(name).node] == upper
        ]
        if own:
            to = {link.far_from(name).node for link in own}
            y = (heights[lower] + heights[upper]) / 2 + 20
            speed = show(own[0].speed_bits_per_s, BITS_PER_S)
            lines.append(
                f'<text x="16" y="{y:.1f}" fill="#57606a">{len(own)} × {speed} per {lower}'
                f'<tspan x="16" dy="14">to {len(to)} {_plural(upper, len(to))}</tspan></text>'
            )
    return "".join(lines)


def _plural(role: str, count: int) -> str:
    return role if count == 1 else "leaves" if role == "leaf" else role + "s"


def _rails(topology: Topology, drawn: Scene) -> str:
    rails = sorted(
        {node.rail for node in topology.nodes if node.role == "leaf" and node.rail is not None}
    )
    y = drawn.height - 16
    items = []
    for place, rail in enumerate(rails[:16]):
        x = 206 + 62 * place
        items.append(
            f'<rect x="{x}" y="{y - 9}" width="10" height="10" rx="2" fill="{_colour(rail)}"/>'
            f'<text x="{x + 15}" y="{y}" fill="#57606a">rail {rail + 1}</text>'
        )
    return "".join(items)
