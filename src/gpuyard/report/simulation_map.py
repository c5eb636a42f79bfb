"""Where a network is full: the fabric's drawing with its wires coloured by load, and a map of all switch pairs."""

from __future__ import annotations

import itertools
from collections import defaultdict
from html import escape

import numpy as np
import numpy.typing as npt

from gpuyard.report.fabric_svg import Tint, topology_svg
from gpuyard.report.svg import WIDTH, drawing
from gpuyard.simulate.drawing import device_names, topology_of
from gpuyard.simulate.network import Network
from gpuyard.simulate.summary import Simulation

__all__ = ["colour_of", "heat_map", "pair_map"]

Floats = npt.NDArray[np.float64]
# ColorBrewer's YlOrRd, on a grey for what idles: light to dark, so that it also reads without colour.
RAMP = ((0.0, (208, 215, 222)), (0.25, (254, 217, 118)), (0.5, (253, 141, 60)), (0.75, (227, 26, 28)),
        (1.0, (128, 0, 38)))  # fmt: skip
MOST_DRAWN = 9000  # hosts beyond which making a drawing takes longer than reading it is worth
MOST_CELLS = 96  # rows and columns of the map; more switches share a cell
LEGEND = (
    '<p class="heat">idle <span style="display:inline-block;width:14rem;height:.8em;background:linear-gradient(to '
    'right,rgb(208,215,222),rgb(254,217,118),rgb(253,141,60),rgb(227,26,28),rgb(128,0,38))"></span> full</p>'
)


def colour_of(share: float) -> str:
    """The colour of a utilisation between 0 and 1."""
    share = min(max(share, 0.0), 1.0)
    for (low, first), (high, last) in itertools.pairwise(RAMP):
        if share <= high:
            part = (share - low) / (high - low)
            red, green, blue = (round(a + (b - a) * part) for a, b in zip(first, last, strict=True))
            return f"rgb({red},{green},{blue})"
    return "rgb(128,0,38)"


def heat_map(done: Simulation) -> str:
    """The drawing, repeated parts collapsed, with wires coloured by the fuller direction."""
    utilisation = done.utilisation
    if utilisation is None or done.network.host_count > MOST_DRAWN:
        return ""
    topology = done.topology or topology_of(done.network)
    names = device_names(done.network, topology)
    tiers = {node.name: node.tier for node in topology.nodes}
    up: dict[tuple[str, str], float] = defaultdict(float)
    down: dict[tuple[str, str], float] = defaultdict(float)
    ends = zip(done.network.link_from.tolist(), done.network.link_to.tolist(), utilisation.tolist(), strict=True)
    for one, other, share in ends:
        a, b = names[one], names[other]
        if a and b and a != b:
            if tiers[a] <= tiers[b]:
                up[a, b] = max(up[a, b], share)
            else:
                down[b, a] = max(down[b, a], share)
    tints = {
        pair: Tint(colour=colour_of(max(up[pair], down[pair])), words=f"{up[pair]:.0%} up, {down[pair]:.0%} down")
        for pair in {*up, *down}
    }
    return f'<div class="scroll">{topology_svg(topology, done.summary.network, tints=tints)}</div>{LEGEND}'


def pair_map(done: Simulation) -> str:
    """Every lower switch against every upper one: the load of the links between them, both ways."""
    utilisation = done.utilisation
    if utilisation is None:
        return ""
    network, parts = done.network, []
    for tier, words in ((1, "leaves and spines"), (2, "spines and cores")):
        for upward in (True, False):
            drawn = _cells(network, utilisation, tier, upward=upward)
            if drawn:
                way = "up" if upward else "down"
                parts.append(f"<figure><figcaption>{words}, {way}</figcaption>{drawn}</figure>")
    return f'<div class="maps">{"".join(parts)}</div>' if parts else ""


def _cells(network: Network, utilisation: Floats, tier: int, *, upward: bool) -> str:
    """One direction between two tiers, a cell for each pair; switches that share a cell show their fullest."""
    low, high = (network.link_from, network.link_to) if upward else (network.link_to, network.link_from)
    links = np.flatnonzero((network.tier[low] == tier) & (network.tier[high] == tier + 1))
    if not len(links):
        return ""
    rows, row = np.unique(low[links], return_inverse=True)
    columns, column = np.unique(high[links], return_inverse=True)
    fold_rows, fold_columns = -(-len(rows) // MOST_CELLS), -(-len(columns) // MOST_CELLS)
    grid: dict[tuple[int, int], tuple[float, int]] = {}
    for place, (r, c) in enumerate(zip((row // fold_rows).tolist(), (column // fold_columns).tolist(), strict=True)):
        share = float(utilisation[links[place]])
        if share >= grid.get((r, c), (-1.0, 0))[0]:
            grid[r, c] = (share, int(links[place]))
    wide, tall = -(-len(columns) // fold_columns), -(-len(rows) // fold_rows)
    side = min(22.0, (WIDTH - 20) / wide, 520.0 / tall)
    body = [
        f'<rect x="{10 + c * side:.1f}" y="{4 + r * side:.1f}" width="{side - 0.6:.2f}" height="{side - 0.6:.2f}" '
        f'fill="{colour_of(share)}"><title>{escape(network.link_name(link))}: {share:.0%}</title></rect>'
        for (r, c), (share, link) in sorted(grid.items())
    ]
    return drawing(round(8 + tall * side), "".join(body))
