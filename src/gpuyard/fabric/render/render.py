"""Everything that a fabric is built from, as files: switches, servers, cables, materials and a twin."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog import Catalog, SwitchOs
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.cabling import cabling_csv, materials_csv
from gpuyard.fabric.render.containerlab import TWIN_NODES, twin
from gpuyard.fabric.render.cumulus import Cumulus
from gpuyard.fabric.render.files import File, SwitchOS
from gpuyard.fabric.render.frr import FRR
from gpuyard.fabric.render.junos import Junos
from gpuyard.fabric.render.server import servers
from gpuyard.fabric.render.sonic import Sonic

__all__ = ["SYSTEMS", "render", "render_switches"]

SYSTEMS: dict[SwitchOs, SwitchOS] = {"junos": Junos(), "sonic": Sonic(), "cumulus": Cumulus(), "frr": FRR()}


def render_switches(fabric: Fabric) -> Iterator[File]:
    """The configuration of every switch; nothing on InfiniBand, where a subnet manager holds it."""
    if fabric.demand.os is not None:
        yield from SYSTEMS[fabric.demand.os].render(fabric)


def render(fabric: Fabric, catalog: Catalog) -> Iterator[File]:
    """Every file, one after the other; the twin only where one host can run it."""
    yield File(path="cabling.csv", text=cabling_csv(fabric))
    yield File(path="materials.csv", text=materials_csv(fabric, catalog))
    yield from render_switches(fabric)
    yield from servers(fabric)
    if fabric.demand.os is not None and len(fabric.devices) <= TWIN_NODES:
        yield from twin(fabric)
