"""A simulated collective on a fabric: numbers, link heat map, timeline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuyard.report.curves import round_steps
from gpuyard.report.page import html_table
from gpuyard.report.simulation import links_table, simulation_table
from gpuyard.report.simulation_map import HEAT_LEGEND, heat_drawing
from gpuyard.report.svg import PALETTE, WIDTH, drawing
from gpuyard.simulate.link_heat import Heat, TimelineSpan
from gpuyard.topology.topology import Topology
from gpuyard.units import DURATION, show

ROW, LEFT = 17, 160


def heat_sections(heat: Heat, topology: Topology) -> list[str]:
    """Sections of a page, as HTML."""
    summary = heat.summary
    sections = [
        (
            f"<p>{escape(summary.traffic)}, every GPU takes part:"
            f" {show(summary.completion_s, DURATION)}</p>"
        )
    ]
    if heat.cables:
        drawn = heat_drawing(topology, summary.network, heat.cables)
        sections.append(f"<h3>Link heat</h3><p>{HEAT_LEGEND}</p>{drawn}")
    if heat.spans:
        sections.append(f"<h3>Timeline</h3>{timeline_svg(heat.spans, summary.completion_s)}")
    sections.append(f"<h3>Numbers</h3>{html_table(simulation_table(summary))}")
    if summary.hottest:
        sections.append(f"<h3>Hottest links</h3>{html_table(links_table(summary))}")
    return sections


def timeline_svg(spans: Sequence[TimelineSpan], end_s: float) -> str:
    """Draw a timeline: one row per name, one bar per span."""
    rows = {name: place for place, name in enumerate(dict.fromkeys(span.row for span in spans))}
    scale = (WIDTH - LEFT - 12) / (end_s or 1.0)
    body = [
        f'<text x="{LEFT - 6}" y="{15 + place * ROW}" text-anchor="end"'
        f' font-size="10">{escape(name)}</text>'
        for name, place in rows.items()
    ]
    for span in spans:
        place, width_s = rows[span.row], span.end_s - span.begin_s
        tooltip = f"{span.what}: {show(span.begin_s, DURATION)} to {show(span.end_s, DURATION)}"
        body.append(
            f'<rect x="{LEFT + span.begin_s * scale:.2f}" y="{5 + place * ROW}"'
            f' width="{max(0.4, width_s * scale):.2f}" height="{ROW - 4}"'
            f' fill="{PALETTE[place % len(PALETTE)]}"><title>{escape(tooltip)}</title></rect>'
        )
    below = 5 + len(rows) * ROW + 12
    body += [
        f'<text x="{LEFT + value * scale:.1f}" y="{below}"'
        f' text-anchor="{"middle" if value < 0.97 * end_s else "end"}"'
        f' font-size="10">{show(value, DURATION) if value else "0"}</text>'
        for value in round_steps(end_s)
    ]
    return drawing(below + 6, "".join(body), "timeline")
