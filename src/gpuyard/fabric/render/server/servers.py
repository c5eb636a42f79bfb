"""Files of the servers: one netplan each, and common NCCL and NIC files."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.server.fabric_nccl import nccl_environment, nccl_topology
from gpuyard.fabric.render.server.netplan import netplan
from gpuyard.fabric.render.server.nic import nic_commands
from gpuyard.fabric.render.switch_os import File


def servers(fabric: Fabric) -> Iterator[File]:
    """Yield the files of the servers."""
    if fabric.demand.purpose == "backend":
        yield File(path="servers/nccl.env", text=nccl_environment(fabric))
        yield File(path="servers/nccl-topology.sh", text=nccl_topology(fabric))
    if fabric.lossless.transport == "roce":
        yield File(path="servers/nic-qos.sh", text=nic_commands(fabric))
    for device in fabric.servers:
        if any(port.address for port in device.interfaces):
            yield File(path=f"servers/{device.name}/netplan.yaml", text=netplan(fabric, device))
