"""Fault injection: take links and switches of a lab down, and restore them."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import InputError, choices_text, closest_match
from gpuyard.lab import host
from gpuyard.lab.boot import addresses, shape
from gpuyard.lab.links import Lab, LabLink


def links_of_device(lab: Lab, name: str) -> tuple[LabLink, ...]:
    """Return the links of a device; raise InputError if the lab has no such device."""
    names = [device.name for device in lab.fabric.devices]
    if name not in names:
        meant = closest_match(name, names)
        fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(names)}"
        raise InputError.one(f"lab {lab.name}", f'no device named "{name}"', fix)
    return tuple(link for link in lab.links if link.connects(name))


def link_between(lab: Lab, one: str, other: str) -> LabLink:
    """Return the first link between two devices."""
    links = links_of_device(lab, one)
    links_of_device(lab, other)  # raises if there is no such device
    for link in links:
        if link.connects(other):
            return link
    peers = sorted({end.node for link in links for end in (link.a, link.b)} - {one})
    raise InputError.one(
        f"lab {lab.name}",
        f"no link between {one} and {other}",
        f"{one} is connected to {choices_text(peers)}",
    )


def fail_link(lab: Lab, link: LabLink) -> None:
    """Take a link down at both ends."""
    for end in (link.a, link.b):
        host.run(["ip", "-n", lab.namespace(end.node), "link", "set", end.port, "down"])


def fail_switch(lab: Lab, name: str, *, silent: bool = False) -> None:
    """Fail a device: take all its links down, or, if silent, drop packets while links stay up."""
    for link in links_of_device(lab, name):
        if not silent:
            fail_link(lab, link)
            continue
        for end in (link.a, link.b):  # both directions
            blackhole = ["qdisc", "replace", "dev", end.port, "root", "blackhole"]
            host.run(["tc", "-n", lab.namespace(end.node), *blackhole])


def heal(lab: Lab) -> int:
    """Restore all failed links and switches, and return how many ports were down or silent."""
    restored = 0
    for device in lab.fabric.devices:
        space = lab.namespace(device.name)
        failed = list(_failed_ports(lab, device.name))
        restored += len(failed)
        for port, rate in failed:
            host.run(["ip", "-n", space, "link", "set", port, "up"])
            host.run(["tc", "-n", space, "qdisc", "del", "dev", port, "root"], check=False)
            host.batch("tc", [shape(port, rate)], space)
        if failed and device.role == "server":  # the kernel drops routes of a port that goes down
            host.batch("ip", addresses(lab.fabric, device), space, force=True)
    return restored


def _failed_ports(lab: Lab, name: str) -> Iterator[tuple[str, float]]:
    space = lab.namespace(name)
    rows = host.run_json(["ip", "-n", space, "-j", "link", "show"])
    assert isinstance(rows, list)
    up = {
        row["ifname"] for row in rows if isinstance(row, dict) and "UP" in _flags(row.get("flags"))
    }
    qdiscs = host.run(["tc", "-n", space, "qdisc", "show"]).splitlines()
    silent = [line for line in qdiscs if line.startswith("qdisc blackhole ")]
    for link in links_of_device(lab, name):
        port = link.port_of(name)
        if port not in up or any(f" dev {port} " in line for line in silent):
            yield port, link.rate_bits_per_s


def _flags(value: object) -> list[str]:
    return [str(flag) for flag in value] if isinstance(value, list) else []
