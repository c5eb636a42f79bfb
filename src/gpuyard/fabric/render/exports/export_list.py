"""The formats of `gpuyard fabric export`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpuyard.catalog.load import Catalog
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.containerlab.clab_topology import containerlab_files
from gpuyard.fabric.render.exports.inventory import ansible_files, netlab_files
from gpuyard.fabric.render.exports.monitoring import gnmic_files, prometheus_files
from gpuyard.fabric.render.exports.netbox import netbox_files
from gpuyard.fabric.render.site import Site
from gpuyard.fabric.render.switch_os import File


def _containerlab(fabric: Fabric, _site: Site | None, _catalog: Catalog) -> Iterator[File]:
    return containerlab_files(fabric)


EXPORTS: Mapping[str, Callable[[Fabric, Site | None, Catalog], Iterator[File]]] = {
    "netbox": netbox_files,
    "ansible": ansible_files,
    "netlab": netlab_files,
    "containerlab": _containerlab,
    "gnmic": gnmic_files,
    "prometheus": prometheus_files,
}
