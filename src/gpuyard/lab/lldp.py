"""Who is at the other end of every cable, asked of the cables themselves: one round of LLDP (IEEE 802.1AB).

Every port sends one frame with the name of its device and its own; what each port hears is the wiring as it is built,
whatever addresses and daemons say. A socket stays in the namespace that it was opened in, so one process asks all.
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

from gpuyard.errors import RefusedError
from gpuyard.lab.wires import Lab
from gpuyard.topology import End, Link, Topology

__all__ = ["as_built", "heard"]

ETHERTYPE = 0x88CC
MULTICAST = bytes.fromhex("0180c200000e")  # nearest bridge: never forwarded
NEWNET = 0x40000000  # CLONE_NEWNET of setns(2)
SYSTEM_NAME, PORT_NAME = 5, 2  # types of TLVs
NAMED_LOCALLY = 7  # subtype of a chassis and of a port
LISTEN_S = 3.0  # at most; a round ends as soon as every port has heard
_OUTGOING = 4  # PACKET_OUTGOING: our own frame, seen again


@contextlib.contextmanager
def in_namespace(namespace: str) -> Iterator[None]:
    """This thread in another network namespace, for as long as the block lasts."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    except OSError as error:
        os.close(own)
        raise RefusedError(f"namespace {namespace}", "it is gone", "gpuyard lab down, then lab up") from error
    try:
        if libc.setns(there, NEWNET):
            raise RefusedError(f"namespace {namespace}", os.strerror(ctypes.get_errno()), "run the command with sudo")
        yield
    finally:
        libc.setns(own, NEWNET)
        os.close(there)
        os.close(own)


def frame(mac: bytes, device: str, port: str) -> bytes:
    """One LLDP frame."""

    def tlv(kind: int, value: bytes) -> bytes:
        """A type, a length and a value."""
        return struct.pack("!H", kind << 9 | len(value)) + value

    return (
        MULTICAST + mac + struct.pack("!H", ETHERTYPE)
        + tlv(1, bytes([NAMED_LOCALLY]) + device.encode())
        + tlv(PORT_NAME, bytes([NAMED_LOCALLY]) + port.encode())
        + tlv(3, struct.pack("!H", 120))  # seconds that it holds
        + tlv(SYSTEM_NAME, device.encode())
        + tlv(0, b"")
    )  # fmt: skip


def told(data: bytes) -> End | None:
    """The device and port that a frame names; None where it names none."""
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


def heard(lab: Lab) -> dict[End, End]:
    """What every port heard: the device and port at the other end of its cable."""
    sockets: dict[int, tuple[str, socket.socket]] = {}
    with contextlib.ExitStack() as opened:
        for device in lab.fabric.devices:
            with in_namespace(lab.namespace(device.name)):
                line = opened.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)))
            sockets[line.fileno()] = (device.name, line)
        for name, line in sockets.values():
            _send(line, name, [port.port for port in lab.fabric.device(name).interfaces])
        ports = sum(len(device.interfaces) for device in lab.fabric.devices)
        return _listen(sockets, ports)


def _send(line: socket.socket, device: str, ports: Sequence[str]) -> None:
    """One frame out of every port that is up."""
    for port in ports:
        with contextlib.suppress(OSError):  # a port that is down says nothing
            line.sendto(frame(bytes.fromhex("020000000001"), device, port), (port, ETHERTYPE))


def _listen(sockets: Mapping[int, tuple[str, socket.socket]], ports: int) -> dict[End, End]:
    """Frames until every port has heard or the time is over."""
    found: dict[End, End] = {}
    limit_s = time.monotonic() + LISTEN_S
    quiet_s = 0.5  # after the last frame nothing more comes: what is down stays silent
    while len(found) < ports and (left_s := limit_s - time.monotonic()) > 0:
        ready, _, _ = select.select(list(sockets), [], [], min(left_s, quiet_s))
        if not ready:
            break
        for number in ready:
            name, line = sockets[number]
            data, address = line.recvfrom(2048)
            peer = told(data)
            if address[2] != _OUTGOING and peer is not None:
                found[End(node=name, port=address[0])] = peer
    return found


def as_built(lab: Lab) -> Topology:
    """The wiring as the cables tell it: a link where both ends heard each other, with the design's cable data."""
    design = lab.fabric.topology
    by_ends = {frozenset((link.a, link.b)): link for link in design.links}
    by_end = {end: link for link in design.links for end in (link.a, link.b)}
    found = heard(lab)
    links: list[Link] = []
    for near, far in found.items():
        if (near.node, near.port) < (far.node, far.port) and found.get(far) == near:
            same = by_ends.get(frozenset((near, far)))
            links.append(same or _moved(by_end[near], near, far))
    return Topology(nodes=design.nodes, links=tuple(links))


def _moved(cable: Link, near: End, far: End) -> Link:
    """A cable that goes elsewhere than designed."""
    return Link(a=near, b=far, speed_bits_per_s=cable.speed_bits_per_s)
