"""Provider-managed fabrics: what a cloud machine includes, and what a deployment must set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.machines import Machine
from gpuyard.catalog.rows import LinkSpeed
from gpuyard.document.field_types import Doc
from gpuyard.units import BITS_PER_S, show

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
    """The network of a cloud machine, divided into the provider's part and the user's."""

    machine: str
    transport: str
    per_machine_bits_per_s: Annotated[
        LinkSpeed | None, Doc("for accelerator traffic, per direction")
    ]
    given: Annotated[tuple[str, ...], Doc("managed by the provider")]
    ours: Annotated[tuple[str, ...], Doc("what a deployment must set")]
    source: tuple[str, ...]


def provider_fabric(machine: Machine) -> ProviderFabric | None:
    """Return the fabric of a cloud machine; None if on-premises or not documented."""
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
    network = machine.network
    if network.fabric_bits_per_s is not None:
        speed = show(network.fabric_bits_per_s, BITS_PER_S)
        yield f"{speed} per machine between accelerators of different machines"
    rails = ""
    if network.rail_count is not None:
        rails = f"{network.rail_count}-way rail alignment, "
    yield f"{rails}switches, routing, congestion control and buffers"
    yield "placement in sub-blocks (a rack, one hop), blocks (two hops) and clusters (three hops)"
    if machine.scale_up_domain_count and machine.scale_up_domain_count > machine.chip_count:
        machines = int(machine.scale_up_domain_count // machine.chip_count)
        count = machine.scale_up_domain_count
        yield f"a scale-up domain of {count} accelerators in {machines} machines"


def _ours(machine: Machine) -> Iterator[str]:
    network = machine.network
    if network.vpc_layout:
        yield f"networks: {network.vpc_layout}"
    if network.mtu_bytes is not None:
        yield f"MTU {network.mtu_bytes:,} on those networks"
    if network.technology == "roce":
        yield "no firewall rules on the network with the RoCE profile"
    yield PLUGINS[network.technology]
    yield "a compact placement policy, so that the machines of a job share a block"
