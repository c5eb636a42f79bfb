"""The containerlab digital twin: same links, addresses and policy, to test routing in advance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuyard.errors import InputError
from gpuyard.fabric.fabric import Device, Fabric, Interface
from gpuyard.fabric.lossless.qos import PfcConfig
from gpuyard.fabric.render.frr.linux_config import render_frr
from gpuyard.fabric.render.switch_os import File
from gpuyard.topology.links import End, Link
from gpuyard.topology.topology import Topology

TWIN_NODES = 256  # containers that one host can be expected to run
SWITCH_IMAGE = "quay.io/frrouting/frr:10.2.1"
SERVER_IMAGE = "docker.io/library/alpine:3.20"
FILES = {
    "frr.conf": "/etc/frr/frr.conf",
    "daemons": "/etc/frr/daemons",
    "sysctl.conf": "/sysctl.conf",
    "links.sh": "/links.sh",
}
Names = Mapping[tuple[str, str], str]


def containerlab_files(fabric: Fabric) -> Iterator[File]:
    """Yield the topology file and its configurations; InputError if there are too many nodes."""
    if len(fabric.devices) > TWIN_NODES:
        raise InputError.one(
            "twin",
            f"{len(fabric.devices)} containers exceed the limit of {TWIN_NODES} per host",
            "render a twin of a smaller fabric of the same shape",
        )
    linux = _as_linux(fabric)
    yield File(path="twin/fabric.clab.yml", text="".join(_topology(linux)))
    for file in render_frr(linux):
        yield File(path=f"twin/{file.path}", text=file.text)


def _as_linux(fabric: Fabric) -> Fabric:
    # Ports get the names they have in containers; PFC is off, because containers have no queues.
    names = {
        (device.name, port.port): f"eth{index}"
        for device in fabric.devices
        for index, port in enumerate(device.interfaces, start=1)
    }
    links = tuple(
        replace(link, a=_end(link.a, names), b=_end(link.b, names))
        for link in fabric.topology.links
    )
    nodes = tuple(replace(node, ports=()) for node in fabric.topology.nodes)
    lossless = replace(
        fabric.lossless, qos=replace(fabric.lossless.qos, pfc=PfcConfig(priorities=()))
    )
    return replace(
        fabric,
        lossless=lossless,
        topology=Topology(nodes=nodes, links=links),
        devices=tuple(
            replace(device, interfaces=_ports(device, names)) for device in fabric.devices
        ),
    )


def _end(end: End, names: Names) -> End:
    return End(node=end.node, port=names[end.node, end.port])


def _ports(device: Device, names: Names) -> tuple[Interface, ...]:
    return tuple(
        replace(port, port=names[device.name, port.port], peer=_end(port.peer, names))
        for port in device.interfaces
    )


def _topology(fabric: Fabric) -> Iterator[str]:
    yield (
        "name: fabric\nprefix: ''\ntopology:\n  kinds:\n    linux:\n      image: "
        + SWITCH_IMAGE
        + "\n  nodes:\n"
    )
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
    if port.address is None:
        return
    address = port.address.partition("/")[0]
    yield f"        - ip link set dev {port.port} mtu {port.mtu_bytes}\n"
    yield f"        - ip address add {port.address} dev {port.port}\n"
    yield f"        - ip route add default via {port.peer_address} dev {port.port} table {table}\n"
    yield f"        - ip rule add from {address}/32 table {table}\n"


def _link(link: Link) -> Iterator[str]:
    yield f'    - endpoints: ["{link.a.node}:{link.a.port}", "{link.b.node}:{link.b.port}"]\n'
