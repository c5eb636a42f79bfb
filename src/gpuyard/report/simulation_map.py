"""Link load as a coloured fabric drawing, and a map of all switch pairs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from gpuyard.report.fabric_svg import Tint, topology_svg
from gpuyard.report.svg import WIDTH, drawing
from gpuyard.simulate.drawing import topology_of
from gpuyard.simulate.link_heat import CableLoad, cable_loads
from gpuyard.simulate.network import Network
from gpuyard.simulate.summary import SimulationResult
from gpuyard.topology.topology import Topology

Floats = npt.NDArray[np.float64]
# ColorBrewer's YlOrRd over grey for idle links: light to dark, readable without colour.
HEAT_LEGEND = (
    "Colour: utilisation of a link in its busier direction; of parallel links, the hottest. Hover"
    " over a link for both directions."
)
RAMP = (
    (0.0, (208, 215, 222)),
    (0.25, (254, 217, 118)),
    (0.5, (253, 141, 60)),
    (0.75, (227, 26, 28)),
    (1.0, (128, 0, 38)),
)
MOST_DRAWN = 9000  # hosts beyond which making a drawing takes longer than reading it is worth
MOST_CELLS = 96  # rows and columns of the map; more switches share a cell
LEGEND = (
    '<p class="heat">idle <span'
    ' style="display:inline-block;width:14rem;height:.8em;background:linear-gradient(to'
    " right,rgb(208,215,222),rgb(254,217,118),rgb(253,141,60),"
    'rgb(227,26,28),rgb(128,0,38))"></span>'
    " full</p>"
)


def colour_of(share: float) -> str:
    """Colour of a utilisation between 0 and 1."""
    share = min(max(share, 0.0), 1.0)
    for (low, first), (high, last) in itertools.pairwise(RAMP):
        if share <= high:
            part = (share - low) / (high - low)
            red, green, blue = (round(a + (b - a) * part) for a, b in zip(first, last, strict=True))
            return f"rgb({red},{green},{blue})"
    return "rgb(128,0,38)"


def heat_map(done: SimulationResult) -> str:
    """The drawing with links coloured by the more loaded direction."""
    if done.utilisation is None or done.network.host_count > MOST_DRAWN:
        return ""
    topology = done.topology or topology_of(done.network)
    return heat_drawing(topology, done.summary.network, cable_loads(done, topology))


def heat_drawing(topology: Topology, title: str, cables: Sequence[CableLoad]) -> str:
    """A drawing with links coloured by load."""
    tints = {
        (cable.lower, cable.upper): Tint(
            colour=colour_of(max(cable.up_ratio, cable.down_ratio)),
            words=f"{cable.up_ratio:.0%} up, {cable.down_ratio:.0%} down",
        )
        for cable in cables
    }
    return f'<div class="scroll">{topology_svg(topology, title, tints=tints)}</div>{LEGEND}'


def pair_map(done: SimulationResult) -> str:
    """Load between every lower and upper switch, in both directions."""
    utilisation = done.utilisation
    if utilisation is None:
        return ""
    network, parts = done.network, []
    for tier, words in ((1, "leaves and spines"), (2, "spines and cores")):
        for upward in (True, False):
            drawn = _cells(network, utilisation, tier, upward=upward)
            if drawn:
                direction = "up" if upward else "down"
                caption = f"<figcaption>{words}, {direction}</figcaption>"
                parts.append(f"<figure>{caption}{drawn}</figure>")
    return f'<div class="maps">{"".join(parts)}</div>' if parts else ""


def _cells(network: Network, utilisation: Floats, tier: int, *, upward: bool) -> str:
    """One direction between two tiers; switches that share a cell show their maximum."""
    low, high = (
        (network.link_from, network.link_to) if upward else (network.link_to, network.link_from)
    )
    links = np.flatnonzero((network.tier[low] == tier) & (network.tier[high] == tier + 1))
    if not len(links):
        return ""
    rows, row = np.unique(low[links], return_inverse=True)
    columns, column = np.unique(high[links], return_inverse=True)
    fold_rows, fold_columns = -(-len(rows) // MOST_CELLS), -(-len(columns) // MOST_CELLS)
    grid: dict[tuple[int, int], tuple[float, int]] = {}
    for place, (r, c) in enumerate(
        zip((row // fold_rows).tolist(), (column // fold_columns).tolist(), strict=True)
    ):
        share = float(utilisation[links[place]])
        if share >= grid.get((r, c), (-1.0, 0))[0]:
            grid[r, c] = (share, int(links[place]))
    wide, tall = -(-len(columns) // fold_columns), -(-len(rows) // fold_rows)
    side = min(22.0, (WIDTH - 20) / wide, 520.0 / tall)
    body = [
        f'<rect x="{10 + c * side:.1f}" y="{4 + r * side:.1f}" width="{side - 0.6:.2f}"'
        f' height="{side - 0.6:.2f}"'
        f' fill="{colour_of(share)}"><title>{escape(network.link_name(link))}:'
        f" {share:.0%}</title></rect>"
        for (r, c), (share, link) in sorted(grid.items())
    ]
    return drawing(round(8 + tall * side), "".join(body))
