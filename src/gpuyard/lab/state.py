"""What the running daemons and the kernel say: sessions, routes and equal paths, against what was computed."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, cast

import numpy as np

from gpuyard.document import Doc, Plain
from gpuyard.errors import RefusedError
from gpuyard.fabric import Device
from gpuyard.fabric.verify.network import Network
from gpuyard.fabric.verify.rib import alive, rib_to
from gpuyard.fabric.verify.subject import network_as_built
from gpuyard.lab import host
from gpuyard.lab.wires import Lab
from gpuyard.topology import Topology

__all__ = ["Route", "Status", "SwitchStatus", "computed_routes", "running_routes", "status", "wait"]

Rows = Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A switch's way to one prefix."""

    switch: str
    prefix: str
    width_count: Annotated[int, Doc("equal next hops")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchStatus:
    """One switch of the lab."""

    name: str
    role: str
    sessions_up_count: int
    sessions_count: int
    routes_count: Annotated[int, Doc("of those that the design computes, with any next hop")]
    expected_count: int
    least_width_count: Annotated[int, Doc("fewest equal paths to a prefix that has several by design; 0: none has")]
    designed_width_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The lab as it runs."""

    name: str
    switches: tuple[SwitchStatus, ...]
    servers_count: int

    @property
    def is_converged(self) -> bool:
        """True when every session is up and every route has all its next hops."""
        return all(
            switch.sessions_up_count == switch.sessions_count
            and switch.routes_count == switch.expected_count
            and switch.least_width_count == switch.designed_width_count
            for switch in self.switches
        )


def prefixes_of(device: Device) -> Iterator[str]:
    """What a switch is the origin of: its loopback, and the links to its servers."""
    yield f"{device.loopback}/32"
    for port in device.interfaces:
        if port.peer_role == "server" and port.address:
            yield str(ipaddress.ip_interface(port.address).network)


def computed_routes(lab: Lab, topology: Topology | None = None) -> frozenset[Route]:
    """The routes that BGP installs by computation, over the design's wiring or over another."""
    network, _ = network_as_built(lab.fabric, topology or lab.fabric.topology)
    return frozenset(_computed(lab, network))


def _computed(lab: Lab, network: Network) -> Iterator[Route]:
    """Every switch's routes to every prefix of every other switch."""
    nothing = np.zeros(network.size, np.float64)
    for number, name in enumerate(network.names):
        rib = rib_to(network, number, alive(network), nothing)
        for prefix in prefixes_of(lab.fabric.device(name)):
            for other, width in zip(network.names, rib.widths, strict=True):
                if other != name and width > 0:
                    yield Route(switch=other, prefix=prefix, width_count=int(width))


def running_routes(lab: Lab, *, kernel: bool = False) -> frozenset[Route]:
    """The routes of the running daemons (RIB), or of the kernel (FIB), to prefixes that the design knows."""
    known = {prefix for device in lab.fabric.switches for prefix in prefixes_of(device)}
    read = _fib if kernel else _rib
    with ThreadPoolExecutor(max_workers=4) as pool:
        found = pool.map(lambda device: list(read(lab, device, known)), lab.fabric.switches)
        return frozenset(route for routes in found for route in routes)


def _rib(lab: Lab, device: Device, known: set[str]) -> Iterator[Route]:
    """What zebra has chosen and installed."""
    table = cast(Mapping[str, list[Rows]], _vtysh(lab, device, "show ip route bgp json"))
    for prefix, entries in table.items():
        chosen = next((entry for entry in entries if entry.get("selected")), None)
        if prefix in known and chosen is not None:
            hops = cast(list[Rows], chosen.get("nexthops", []))
            yield Route(switch=device.name, prefix=prefix, width_count=sum(bool(hop.get("fib")) for hop in hops))


def _fib(lab: Lab, device: Device, known: set[str]) -> Iterator[Route]:
    """What the kernel forwards by."""
    rows = cast(list[Rows], host.asked(["ip", "-n", lab.namespace(device.name), "-j", "route", "show", "proto", "bgp"]))
    for row in rows:
        prefix = str(row["dst"])
        prefix = prefix if "/" in prefix else f"{prefix}/32"
        if prefix in known:
            hops = cast(list[Plain], row.get("nexthops") or [row])
            yield Route(switch=device.name, prefix=prefix, width_count=len(hops))


def _vtysh(lab: Lab, device: Device, command: str) -> Plain:
    """The answer of a switch's daemons."""
    return host.asked(["vtysh", "-N", lab.namespace(device.name), "-c", command])


def sessions(lab: Lab, device: Device) -> tuple[int, int]:
    """BGP sessions of a switch that are established, and those that it should have."""
    answer = cast(Mapping[str, Rows], _vtysh(lab, device, "show bgp ipv4 unicast summary json"))
    peers = cast(Mapping[str, Rows], answer.get("peers") or (answer.get("ipv4Unicast") or {}).get("peers") or {})
    return sum(peer.get("state") == "Established" for peer in peers.values()), len(peers)


def status(lab: Lab) -> Status:
    """Sessions, routes and widths of every switch against the design."""
    wanted, found = computed_routes(lab), running_routes(lab, kernel=True)
    width = {(route.switch, route.prefix): route.width_count for route in found}
    with ThreadPoolExecutor(max_workers=4) as pool:
        counts = list(pool.map(lambda device: sessions(lab, device), lab.fabric.switches))
    rows = []
    for device, (up, peers) in zip(lab.fabric.switches, counts, strict=True):
        mine = [route for route in wanted if route.switch == device.name]
        wide = [route for route in mine if route.width_count > 1]
        rows.append(SwitchStatus(
            name=device.name, role=device.role, sessions_up_count=up, sessions_count=peers,
            routes_count=sum((device.name, route.prefix) in width for route in mine), expected_count=len(mine),
            least_width_count=min((width.get((device.name, route.prefix), 0) for route in wide), default=0),
            designed_width_count=min((route.width_count for route in wide), default=0),
        ))  # fmt: skip
    return Status(name=lab.name, switches=tuple(rows), servers_count=len(lab.fabric.servers))


def wait(lab: Lab, limit_s: float = 60.0) -> float:
    """Waits until the kernel of every switch holds every computed route at its full width; gives the time it took."""
    wanted, start_s = computed_routes(lab), time.monotonic()
    while True:
        found = running_routes(lab, kernel=True)
        passed_s = time.monotonic() - start_s
        if wanted <= found:
            return passed_s
        if passed_s > limit_s:
            missing = min(wanted - found, key=lambda route: (route.switch, route.prefix))
            ways = f"{missing.switch} has no {missing.width_count} ways to {missing.prefix}"
            raise RefusedError(
                f"lab {lab.name}",
                f"not converged after {limit_s:g} s: {ways}",
                "gpuyard lab status; gpuyard lab verify names the cable or session",
            )
        time.sleep(0.2)
