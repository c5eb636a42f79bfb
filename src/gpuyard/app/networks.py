"""Networks to simulate from files: saved fabrics, topologies, cabling, demands and workloads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuyard.app.fabric import design_fabric, read_cabling, read_request
from gpuyard.catalog.load import load_catalog
from gpuyard.document.read import parse_json, read_text
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.provider import ProviderFabric
from gpuyard.simulate.sites.fabric_network import site_of_fabric
from gpuyard.simulate.sites.named_topologies import NetworkOptions, NetworkSetup
from gpuyard.simulate.sites.networks import network_setup, site_of_cabling


def open_network(
    options: NetworkOptions,
    file: Path | None = None,
    layers: Sequence[Path] = (),
    default_hosts: int | None = None,
) -> NetworkSetup | Infeasible:
    """The network of a file, or without one the network that the options define."""
    if file is None:
        return network_setup(options, load_catalog(layers), default_hosts)
    if file.suffix in (".yaml", ".yml"):
        return _designed(file, options, layers)
    if file.suffix == ".json" and file.is_file() and not _holds_cables(file):
        raise InputError.one(
            str(file),
            "is not a saved fabric",
            "use a file written by `gpuyard fabric design -o`",
        )
    subject = read_cabling(file)
    if isinstance(subject, Fabric):
        return site_of_fabric(subject, load_catalog(layers), options)
    return site_of_cabling(subject, options)


def _designed(
    file: Path, options: NetworkOptions, layers: Sequence[Path]
) -> NetworkSetup | Infeasible:
    request = read_request(file, layers)
    if isinstance(request, Infeasible):
        return request
    fabric = design_fabric(request.demand, request.catalog)
    if isinstance(fabric, Infeasible):
        return fabric
    if isinstance(fabric, ProviderFabric):
        raise InputError.one(
            str(file),
            f"the fabric of {fabric.machine} is provider-managed",
            "use --gpus with --machine",
        )
    return site_of_fabric(fabric, request.catalog, options)


def _holds_cables(file: Path) -> bool:
    """Whether a JSON file is a fabric, a topology or a list of neighbours; bad JSON fails later."""
    try:
        data = parse_json(read_text(file), str(file))
    except InputError:
        return True
    return not isinstance(data, dict) or bool({"interfaces", "port_names", "lldp"} & set(data))
