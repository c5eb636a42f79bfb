"""All files of a fabric: switches, servers, cabling, bill of materials and digital twin."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.cabling.cabling_csv import cabling_csv, materials_csv
from gpuyard.fabric.render.containerlab.clab_topology import TWIN_NODES, containerlab_files
from gpuyard.fabric.render.infiniband.subnet_manager import subnet_manager_files
from gpuyard.fabric.render.management import management_files
from gpuyard.fabric.render.server.servers import servers
from gpuyard.fabric.render.site import Site
from gpuyard.fabric.render.switch_os import File
from gpuyard.fabric.render.switch_os_list import switch_os
from gpuyard.fabric.render.ztp import ztp_files


def render_switches(fabric: Fabric) -> Iterator[File]:
    """Yield the configuration of every switch; none on InfiniBand, which a subnet manager runs."""
    if fabric.demand.os is not None:
        yield from switch_os(fabric.demand.os).render(fabric)


def render(fabric: Fabric, catalog: Catalog, site: Site | None = None) -> Iterator[File]:
    """Yield every file; the digital twin only if one host can run it."""
    yield File(path="cabling.csv", text=cabling_csv(fabric))
    yield File(path="materials.csv", text=materials_csv(fabric, catalog))
    yield from render_switches(fabric)
    if fabric.demand.technology == "infiniband":
        yield from subnet_manager_files(fabric)
    if site is not None:
        yield from management_files(fabric, site)
        yield from ztp_files(fabric, site)
    yield from servers(fabric)
    if fabric.demand.os is not None and len(fabric.devices) <= TWIN_NODES:
        yield from containerlab_files(fabric)
