"""A simulated network as one offline page: numbers, heat map, timeline, distributions."""

from __future__ import annotations

from html import escape

import numpy as np

from gpuyard.report.curves import Line, distributions, round_steps, tracks
from gpuyard.report.page import asset, html_table, page
from gpuyard.report.simulation import links_table, simulation_table
from gpuyard.report.simulation_map import HEAT_LEGEND, heat_map, pair_map
from gpuyard.report.svg import PALETTE, WIDTH, Axis, drawing
from gpuyard.simulate.summary import SimulationResult
from gpuyard.units import BYTES, DURATION, RATIO, show

CURVE_POINTS = 201
HOSTS_SHOWN, FLOWS_SHOWN = 32, 4000
ROW = 15


def simulation_page(done: SimulationResult) -> str:
    """The page of one simulation."""
    numbers = f"<div><h2>Numbers</h2>{html_table(simulation_table(done.summary))}</div>"
    links = (
        f"<div><h2>Hottest links</h2>{html_table(links_table(done.summary))}</div>"
        if done.summary.hottest
        else ""
    )
    sections = [asset("simulation.css"), f'<div class="two">{numbers}{links}</div>']
    sections += _section("Load of the links", heat_map(done), HEAT_LEGEND)
    sections += _section(
        "Load between switches", pair_map(done), "A row is a lower switch, a column an upper one."
    )
    sections += _section("Timeline", timeline(done), "")
    curves = (
        ("Active flows", active(done)),
        ("Flow completion times", _completions(done)),
        ("Utilisation, links in order of their load", _utilisations(done)),
        ("Most in the buffer, switches in order", _buffers(done)),
        ("Time paused, links in order", _pauses(done)),
    )
    drawn = "".join(
        f"<figure><figcaption>{escape(name)}</figcaption>{body}</figure>"
        for name, body in curves
        if body
    )
    sections += _section("Distributions", f'<div class="plots">{drawn}</div>' if drawn else "", "")
    return page(f"Simulation: {done.summary.traffic}", sections)


def _section(title: str, body: str, words: str) -> list[str]:
    paragraph = f"<p>{escape(words)}</p>" if words else ""
    return [f"<h2>{escape(title)}</h2>{paragraph}{body}"] if body else []


def timeline(done: SimulationResult) -> str:
    """Flows per host over time, or the phases of a collective."""
    if done.phases:
        bars = [(phase.label, phase.begin_s, phase.end_s) for phase in done.phases]
        return _bars(bars, done.summary.completion_s)
    traffic, outcome = done.traffic, done.outcome
    if traffic is None or outcome is None or not outcome.duration_s:
        return ""
    hosts = np.unique(traffic.source)
    shown = (
        hosts
        if len(hosts) <= HOSTS_SHOWN
        else hosts[np.linspace(0, len(hosts) - 1, HOSTS_SHOWN).astype(int)]
    )
    left, scale = 150, (WIDTH - 160) / outcome.duration_s
    body = []
    for row, host in enumerate(shown.tolist()):
        y = 4 + row * ROW
        name = escape(done.network.names[host])
        body.append(
            f'<text x="{left - 6}" y="{y + 10}" text-anchor="end" font-size="10">{name}</text>'
        )
        own = np.flatnonzero((traffic.source == host) & ~np.isnan(outcome.finish_s))
        own = own[np.argsort(outcome.began_s[own], kind="stable")][
            : FLOWS_SHOWN // max(1, len(shown))
        ]
        for flow in own.tolist():
            begin, end = float(outcome.began_s[flow]), float(outcome.finish_s[flow])
            colour = PALETTE[int(traffic.channel[flow]) % 6 if len(own) > 1 else 0]
            tooltip = f"{name} → {escape(done.network.names[int(traffic.target[flow])])}"
            body.append(
                f'<rect x="{left + begin * scale:.2f}" y="{y}"'
                f' width="{max(0.4, (end - begin) * scale):.2f}" height="{ROW - 4}" fill="{colour}"'
                f' fill-opacity=".55" stroke="currentColor" stroke-width=".3"><title>{tooltip}:'
                f" {show(begin, DURATION)} to {show(end, DURATION)},"
                f" {show(int(traffic.size_bytes[flow]), BYTES)}</title></rect>"
            )
    more = len(hosts) - len(shown)
    note = f"<p>{len(shown)} of {len(hosts):,} hosts; --trace writes them all.</p>" if more else ""
    body.append(_clock(left, scale, outcome.duration_s, len(shown)))
    return drawing(12 + len(shown) * ROW + 14, "".join(body)) + note


def _clock(left: float, scale: float, end_s: float, rows: int) -> str:
    y = 4 + rows * ROW + 12
    return "".join(
        f'<text x="{left + value * scale:.1f}" y="{y}"'
        f' text-anchor="{"middle" if value < 0.97 * end_s else "end"}"'
        f' font-size="10">{show(value, DURATION) if value else "0"}</text>'
        for value in round_steps(end_s)
    )


def _bars(bars: list[tuple[str, float, float]], end_s: float) -> str:
    left, scale = 150, (WIDTH - 160) / (end_s or 1.0)
    body = [
        f'<text x="{left - 6}" y="{15 + row * ROW}" text-anchor="end"'
        f' font-size="10">{escape(label)}</text><rect x="{left + begin * scale:.2f}"'
        f' y="{5 + row * ROW}" width="{max(0.4, (end - begin) * scale):.2f}" height="{ROW - 4}"'
        f' fill="{PALETTE[row % len(PALETTE)]}"><title>{escape(label)}: {show(begin, DURATION)} to'
        f" {show(end, DURATION)}</title></rect>"
        for row, (label, begin, end) in enumerate(bars)
    ]
    return drawing(12 + len(bars) * ROW + 14, "".join(body) + _clock(left, scale, end_s, len(bars)))


def active(done: SimulationResult) -> str:
    """Number of active flows over time."""
    outcome = done.outcome
    if outcome is None or not outcome.duration_s:
        return ""
    known = ~np.isnan(outcome.finish_s)
    at = np.linspace(0.0, outcome.duration_s, CURVE_POINTS)
    begun = np.searchsorted(np.sort(outcome.began_s[known]), at, side="right")
    ended = np.searchsorted(np.sort(outcome.finish_s[known]), at, side="right")
    line = Line(
        name="active flows",
        xs=tuple(at.tolist()),
        ys=tuple((begun - ended).astype(float).tolist()),
    )
    clock = Axis(title="time", words=lambda value: show(value, DURATION))
    return tracks([line], clock, lambda value: f"{value:,.0f}", "active flows")


def _completions(done: SimulationResult) -> str:
    if done.outcome is None:
        return ""
    times = done.outcome.completion_s[~np.isnan(done.outcome.finish_s)]
    if not len(times) or not times.max() > 0:
        return ""
    shares = np.linspace(0.0, 1.0, CURVE_POINTS)
    line = Line(
        name="flows", xs=tuple(np.quantile(times, shares).tolist()), ys=tuple(shares.tolist())
    )
    return distributions(
        [line], Axis(title="completion time", words=lambda value: show(value, DURATION)), of="flows"
    )


def _utilisations(done: SimulationResult) -> str:
    """Links of each kind, sorted by utilisation."""
    utilisation = done.utilisation
    if utilisation is None:
        return ""
    network = done.network
    low = np.minimum(network.tier[network.link_from], network.tier[network.link_to])
    up = network.tier[network.link_from] <= network.tier[network.link_to]
    lines = []
    for tier, name in ((0, "host and leaf"), (1, "leaf and spine"), (2, "spine and core")):
        for links, word in ((up, "up"), (~up, "down")):
            values = np.sort(utilisation[(low == tier) & links])
            if len(values):
                lines.append(_ordered(f"{name}, {word}", values))
    return tracks(lines, _shares("links"), lambda value: show(value, RATIO), "utilisation")


def _buffers(done: SimulationResult) -> str:
    if done.packets is None:
        return ""
    values = np.sort(done.packets.node_peak_bytes[done.network.host_count :].astype(np.float64))
    if not len(values) or not values.max() > 0:
        return ""
    return tracks(
        [_ordered("most in the buffer", values)],
        _shares("switches"),
        lambda v: show(v, BYTES),
        "buffer",
    )


def _pauses(done: SimulationResult) -> str:
    if done.packets is None or not done.packets.link_pause_s.max() > 0:
        return ""
    line = _ordered("paused", np.sort(done.packets.link_pause_s))
    return tracks([line], _shares("links"), lambda value: show(value, DURATION), "pause time")


def _ordered(name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Line:
    places = np.unique(np.linspace(0, len(values) - 1, min(CURVE_POINTS, len(values))).astype(int))
    shares = (places + 1) / len(values)
    return Line(name=name, xs=tuple(shares.tolist()), ys=tuple(values[places].tolist()))


def _shares(of: str) -> Axis:
    return Axis(title=f"share of {of}", words=lambda value: show(value, RATIO))
