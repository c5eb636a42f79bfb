"""The twin: the same links, addresses and policy, so that routing can be tried before the hardware comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuyard.errors import InputError
from gpuyard.fabric.fabric import Device, Fabric, Interface
from gpuyard.fabric.lossless import Pfc
from gpuyard.fabric.render.files import File
from gpuyard.fabric.render.frr.system import FRR
from gpuyard.topology import End, Link, Topology

__all__ = ["TWIN_NODES", "twin"]

TWIN_NODES = 256  # containers that one host can be expected to run
SWITCH_IMAGE = "quay.io/frrouting/frr:10.2.1"
SERVER_IMAGE = "docker.io/library/alpine:3.20"
FILES = {
    "frr.conf": "/etc/frr/frr.conf", "daemons": "/etc/frr/daemons", "sysctl.conf": "/sysctl.conf",
    "links.sh": "/links.sh",
}  # fmt: skip
Names = Mapping[tuple[str, str], str]


def twin(fabric: Fabric) -> Iterator[File]:
    """The topology file and the configurations that its containers read; InputError if there are too many."""
    if len(fabric.devices) > TWIN_NODES:
        raise InputError.one(
            "twin", f"{len(fabric.devices)} containers are too many for one host (the limit is {TWIN_NODES})",
            "make a twin of a smaller fabric of the same shape",
        )  # fmt: skip
    linux = _as_linux(fabric)
    yield File(path="twin/fabric.clab.yml", text="".join(_topology(linux)))
    for file in FRR().render(linux):
        yield File(path=f"twin/{file.path}", text=file.text)


def _as_linux(fabric: Fabric) -> Fabric:
    """The same fabric with ports named as containers name them, and without queues, which they lack."""
    names = {(device.name, port.port): f"eth{index}"
             for device in fabric.devices for index, port in enumerate(device.interfaces, start=1)}  # fmt: skip
    links = tuple(replace(link, a=_end(link.a, names), b=_end(link.b, names)) for link in fabric.topology.links)
    nodes = tuple(replace(node, ports=()) for node in fabric.topology.nodes)
    lossless = replace(fabric.lossless, qos=replace(fabric.lossless.qos, pfc=Pfc(priorities=())))
    return replace(
        fabric, lossless=lossless, topology=Topology(nodes=nodes, links=links),
        devices=tuple(replace(device, interfaces=_ports(device, names)) for device in fabric.devices),
    )  # fmt: skip


def _end(end: End, names: Names) -> End:
    """The end by its new name."""
    return End(node=end.node, port=names[end.node, end.port])


def _ports(device: Device, names: Names) -> tuple[Interface, ...]:
    """A device's ports by their new names."""
    return tuple(
        replace(port, port=names[device.name, port.port], peer=_end(port.peer, names)) for port in device.interfaces
    )


def _topology(fabric: Fabric) -> Iterator[str]:
    """fabric.clab.yml."""
    yield "name: fabric\nprefix: ''\ntopology:\n  kinds:\n    linux:\n      image: " + SWITCH_IMAGE + "\n  nodes:\n"
    for device in fabric.switches:
        yield f"    {device.name}:\n      kind: linux\n      binds:\n"
        for name, inside in FILES.items():
            yield f"        - switches/{device.name}/{name}:{inside}\n"
        yield "      exec:\n        - sysctl -e -q -p /sysctl.conf\n        - sh /links.sh\n"
    for device in fabric.servers:
        yield f"    {device.name}:\n      kind: linux\n      image: {SERVER_IMAGE}\n      exec:\n"
        for index, port in enumerate(device.interfaces):
            yield from _server_commands(port, 101 + index)
    yield "  links:\n"
    for link in fabric.topology.links:
        yield from _link(link)


def _server_commands(port: Interface, table: int) -> Iterator[str]:
    """The address of a NIC, and a routing table of its own."""
    if port.address is None:
        return
    address = port.address.partition("/")[0]
    yield f"        - ip link set dev {port.port} mtu {port.mtu_bytes}\n"
    yield f"        - ip address add {port.address} dev {port.port}\n"
    yield f"        - ip route add default via {port.peer_address} dev {port.port} table {table}\n"
    yield f"        - ip rule add from {address}/32 table {table}\n"


def _link(link: Link) -> Iterator[str]:
    """One cable."""
    yield f'    - endpoints: ["{link.a.node}:{link.a.port}", "{link.b.node}:{link.b.port}"]\n'
