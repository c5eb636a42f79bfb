"""LLDP discovery in a lab (IEEE 802.1AB): the as-built cabling, from one round of frames.

Every port sends one frame with its own name and that of its device; what the other end receives is
the real cabling, whatever addresses and daemons report. A socket stays in the namespace in which it
was opened, so one process serves all namespaces.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence

from gpuyard.errors import ExternalError
from gpuyard.lab.links import Lab
from gpuyard.topology.links import End, Link
from gpuyard.topology.topology import Topology

ETHERTYPE = 0x88CC
MULTICAST = bytes.fromhex("0180c200000e")  # nearest bridge: never forwarded
NEWNET = 0x40000000  # CLONE_NEWNET of setns(2)
SYSTEM_NAME, PORT_NAME = 5, 2  # types of TLVs
NAMED_LOCALLY = 7  # subtype of a chassis and of a port
LISTEN_S = 3.0  # maximum; a round ends when every port has received a frame
_OUTGOING = 4  # PACKET_OUTGOING: a frame that this host sent


@contextlib.contextmanager
def in_namespace(namespace: str) -> Iterator[None]:
    """Run the block in another network namespace (this thread only)."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    except OSError as error:
        os.close(own)
        raise ExternalError(
            f"namespace {namespace}", "no longer exists", "gpuyard lab down, then lab up"
        ) from error
    try:
        if libc.setns(there, NEWNET):
            raise ExternalError(
                f"namespace {namespace}",
                os.strerror(ctypes.get_errno()),
                "run the command with sudo",
            )
        yield
    finally:
        libc.setns(own, NEWNET)
        os.close(there)
        os.close(own)


def frame(mac: bytes, device: str, port: str) -> bytes:
    """Return an LLDP frame."""

    def tlv(kind: int, value: bytes) -> bytes:
        return struct.pack("!H", kind << 9 | len(value)) + value

    return (
        MULTICAST
        + mac
        + struct.pack("!H", ETHERTYPE)
        + tlv(1, bytes([NAMED_LOCALLY]) + device.encode())
        + tlv(PORT_NAME, bytes([NAMED_LOCALLY]) + port.encode())
        + tlv(3, struct.pack("!H", 120))  # time to live in seconds
        + tlv(SYSTEM_NAME, device.encode())
        + tlv(0, b"")
    )


def parse_frame(data: bytes) -> End | None:
    """Return the device and port in an LLDP frame; None if a name is missing."""
    at, device, port = 14, "", ""
    while at + 2 <= len(data):
        head = struct.unpack_from("!H", data, at)[0]
        kind, length = head >> 9, head & 0x1FF
        value = data[at + 2 : at + 2 + length]
        at += 2 + length
        if kind == 0 or len(value) < length:
            break
        if kind == SYSTEM_NAME:
            device = value.decode(errors="replace")
        elif kind == PORT_NAME:
            port = value[1:].decode(errors="replace")
    return End(node=device, port=port) if device and port else None


def neighbours(lab: Lab) -> dict[End, End]:
    """Return the device and port at the other end of every cable."""
    sockets: dict[int, tuple[str, socket.socket]] = {}
    with contextlib.ExitStack() as opened:
        for device in lab.fabric.devices:
            with in_namespace(lab.namespace(device.name)):
                line = opened.enter_context(
                    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
                )
            sockets[line.fileno()] = (device.name, line)
        for name, line in sockets.values():
            _send(line, name, [port.port for port in lab.fabric.device(name).interfaces])
        ports = sum(len(device.interfaces) for device in lab.fabric.devices)
        return _listen(sockets, ports)


def _send(line: socket.socket, device: str, ports: Sequence[str]) -> None:
    for port in ports:
        with contextlib.suppress(OSError):  # the port may be down
            line.sendto(frame(bytes.fromhex("020000000001"), device, port), (port, ETHERTYPE))


def _listen(sockets: Mapping[int, tuple[str, socket.socket]], ports: int) -> dict[End, End]:
    peers: dict[End, End] = {}
    limit_s = time.monotonic() + LISTEN_S
    quiet_s = 0.5  # ports that are down never send, so a pause ends the round
    while len(peers) < ports and (left_s := limit_s - time.monotonic()) > 0:
        ready, _, _ = select.select(list(sockets), [], [], min(left_s, quiet_s))
        if not ready:
            break
        for number in ready:
            name, line = sockets[number]
            data, address = line.recvfrom(2048)
            peer = parse_frame(data)
            if address[2] != _OUTGOING and peer is not None:
                peers[End(node=name, port=address[0])] = peer
    return peers


def as_built(lab: Lab) -> Topology:
    """Return the as-built cabling: a link where both ends received each other's frame."""
    design = lab.fabric.topology
    by_ends = {frozenset((link.a, link.b)): link for link in design.links}
    by_end = {end: link for link in design.links for end in (link.a, link.b)}
    peers = neighbours(lab)
    links: list[Link] = []
    for near, far in peers.items():
        if (near.node, near.port) < (far.node, far.port) and peers.get(far) == near:
            same = by_ends.get(frozenset((near, far)))
            links.append(same or _moved(by_end[near], near, far))
    return Topology(nodes=design.nodes, links=tuple(links))


def _moved(cable: Link, near: End, far: End) -> Link:
    return Link(a=near, b=far, speed_bits_per_s=cable.speed_bits_per_s)
