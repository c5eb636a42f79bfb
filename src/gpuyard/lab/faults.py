"""Cables pulled and switches lost on purpose, and put back."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import InputError, nearest, one_of
from gpuyard.lab import host
from gpuyard.lab.boot import addresses, shape
from gpuyard.lab.wires import Lab, Wire

__all__ = ["fail_link", "fail_switch", "heal", "wire_named", "wires_of_device"]


def wires_of_device(lab: Lab, name: str) -> tuple[Wire, ...]:
    """The cables of a device; InputError naming the nearest when there is no such device."""
    names = [device.name for device in lab.fabric.devices]
    if name not in names:
        meant = nearest(name, names)
        fix = f'did you mean "{meant}"?' if meant else f"use {one_of(names)}"
        raise InputError.one(f"lab {lab.name}", f'no device named "{name}"', fix)
    return tuple(wire for wire in lab.wires if wire.joins(name))


def wire_named(lab: Lab, one: str, other: str) -> Wire:
    """The first cable between two devices."""
    found = [wire for wire in wires_of_device(lab, one) if wires_of_device(lab, other) and wire.joins(other)]
    if not found:
        peers = sorted({end.node for wire in wires_of_device(lab, one) for end in (wire.a, wire.b)} - {one})
        raise InputError.one(
            f"lab {lab.name}", f"no cable between {one} and {other}", f"{one} is joined to {one_of(peers)}"
        )
    return found[0]


def fail_link(lab: Lab, wire: Wire) -> None:
    """Pulls a cable: both ends see the light go out."""
    for end in (wire.a, wire.b):
        host.run(["ip", "-n", lab.namespace(end.node), "link", "set", end.port, "down"])


def fail_switch(lab: Lab, name: str, *, silent: bool = False) -> None:
    """Takes a device away: all its cables at once, or, silently, every packet while the links stay up."""
    for wire in wires_of_device(lab, name):
        if not silent:
            fail_link(lab, wire)
            continue
        for end in (wire.a, wire.b):  # what it sends, and what is sent to it
            host.run(["tc", "-n", lab.namespace(end.node), "qdisc", "replace", "dev", end.port, "root", "blackhole"])


def heal(lab: Lab) -> int:
    """Puts everything back as it was laid; gives how many ends of cables were down or silent."""
    mended = 0
    for device in lab.fabric.devices:
        space = lab.namespace(device.name)
        broken = list(_broken(lab, device.name))
        mended += len(broken)
        for port, rate in broken:
            host.run(["ip", "-n", space, "link", "set", port, "up"])
            host.run(["tc", "-n", space, "qdisc", "del", "dev", port, "root"], check=False)
            host.batch("tc", [shape(port, rate)], space)
        if broken and device.role == "server":  # the kernel forgets routes of a port that was down
            host.batch("ip", addresses(lab.fabric, device), space, force=True)
    return mended


def _broken(lab: Lab, name: str) -> Iterator[tuple[str, float]]:
    """The ports of a device that are down or silent, with the rates that they had."""
    space = lab.namespace(name)
    links = host.asked(["ip", "-n", space, "-j", "link", "show"])
    assert isinstance(links, list)
    up = {row["ifname"] for row in links if isinstance(row, dict) and "UP" in _flags(row.get("flags"))}
    queues = host.run(["tc", "-n", space, "qdisc", "show"])
    for wire in wires_of_device(lab, name):
        port = wire.port_of(name)
        if port not in up or f"blackhole {_handle(queues, port)}" in queues:
            yield port, wire.rate_bits_per_s


def _flags(value: object) -> list[str]:
    """The flags of a link."""
    return [str(word) for word in value] if isinstance(value, list) else []


def _handle(queues: str, port: str) -> str:
    """How a blackhole of the port is shown, after its kind."""
    line = next((line for line in queues.splitlines() if f" dev {port} " in line and "blackhole" in line), "")
    return line.removeprefix("qdisc blackhole ") or "\0"
