"""The fabrics of a cloud: what comes wired with the machine, and what is left for us to set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog import Machine
from gpuyard.catalog.rows import LinkSpeed
from gpuyard.document import Doc
from gpuyard.units import BITS_PER_S, show

__all__ = ["ProviderFabric", "provider_fabric"]

TRANSPORTS = {
    "roce": "GPUDirect RDMA over RoCE",
    "tcpxo": "GPUDirect-TCPXO",
    "tcpx": "GPUDirect-TCPX",
}
PLUGINS = {
    "roce": "the gIB NCCL plug-in",
    "tcpxo": "the TCPXO NCCL plug-in and its receive daemon",
    "tcpx": "the TCPX NCCL plug-in and its receive daemon",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFabric:
    """The network of a rented machine, divided by whose it is."""

    machine: str
    transport: str
    per_machine_bits_per_s: Annotated[LinkSpeed | None, Doc("for accelerator traffic, one direction")]
    given: Annotated[tuple[str, ...], Doc("what the provider wires, routes and keeps lossless")]
    ours: Annotated[tuple[str, ...], Doc("what a deployment must set")]
    source: tuple[str, ...]


def provider_fabric(machine: Machine) -> ProviderFabric | None:
    """The fabric that comes with a machine; None for one that is bought, or whose fabric is not documented."""
    if machine.provider == "onprem" or machine.network.technology not in TRANSPORTS:
        return None
    technology = machine.network.technology
    return ProviderFabric(
        machine=machine.name,
        transport=TRANSPORTS[technology],
        per_machine_bits_per_s=machine.network.fabric_bits_per_s,
        given=tuple(_given(machine)),
        ours=tuple(_ours(machine)),
        source=machine.source,
    )


def _given(machine: Machine) -> Iterator[str]:
    """What is there when the machine starts."""
    network = machine.network
    if network.fabric_bits_per_s is not None:
        yield f"{show(network.fabric_bits_per_s, BITS_PER_S)} a machine between accelerators of different machines"
    if network.rail_count is not None:
        yield f"{network.rail_count}-way rail alignment, switches, routing, congestion control and buffers"
    else:
        yield "switches, routing, congestion control and buffers"
    yield "sub-blocks (a rack, one hop), blocks (two hops) and clusters (one hop more) to place machines in"
    if machine.scale_up_domain_count and machine.scale_up_domain_count > machine.chip_count:
        machines = int(machine.scale_up_domain_count // machine.chip_count)
        yield f"a scale-up domain of {machine.scale_up_domain_count} accelerators in {machines} machines"


def _ours(machine: Machine) -> Iterator[str]:
    """What a deployment decides."""
    network = machine.network
    if network.vpc_layout:
        yield f"networks: {network.vpc_layout}"
    if network.mtu_bytes is not None:
        yield f"MTU {network.mtu_bytes:,} on those networks"
    if network.technology == "roce":
        yield "no firewall rules on the network with the RoCE profile"
    yield PLUGINS[network.technology]
    yield "placement: a compact policy, so that a job's machines share a block"
