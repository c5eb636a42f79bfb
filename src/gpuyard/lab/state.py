"""State of a running lab: BGP sessions, routes and ECMP widths, compared with the computed ones."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, cast

import numpy as np

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError
from gpuyard.fabric.fabric import Device
from gpuyard.fabric.verify.rib import alive, rib_to
from gpuyard.fabric.verify.subject import network_as_built
from gpuyard.fabric.verify.switch_graph import SwitchGraph
from gpuyard.lab import host
from gpuyard.lab.links import Lab
from gpuyard.topology.topology import Topology

Rows = Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRoute:
    """A route of a switch to one prefix."""

    switch: str
    prefix: str
    width_count: Annotated[int, Doc("next hops of the ECMP group")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchStatus:
    """Sessions and routes of one switch."""

    name: str
    role: str
    sessions_up_count: int
    sessions_count: int
    routes_count: Annotated[int, Doc("expected routes that exist, of any width")]
    expected_count: int
    least_width_count: Annotated[
        int,
        Doc("smallest ECMP width of a route that has several paths by design; 0: no such route"),
    ]
    designed_width_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabStatus:
    """Status of every switch of a lab."""

    name: str
    switches: tuple[SwitchStatus, ...]
    servers_count: int

    @property
    def is_converged(self) -> bool:
        return all(
            switch.sessions_up_count == switch.sessions_count
            and switch.routes_count == switch.expected_count
            and switch.least_width_count == switch.designed_width_count
            for switch in self.switches
        )


def prefixes_of(device: Device) -> Iterator[str]:
    """Yield the prefixes that a switch originates: its loopback, and the links to its servers."""
    yield f"{device.loopback}/32"
    for port in device.interfaces:
        if port.peer_role == "server" and port.address:
            yield str(ipaddress.ip_interface(port.address).network)


def computed_routes(lab: Lab, topology: Topology | None = None) -> frozenset[SwitchRoute]:
    """Return the routes that BGP should install, over the designed cabling or another."""
    network, _ = network_as_built(lab.fabric, topology or lab.fabric.topology)
    return frozenset(_computed(lab, network))


def _computed(lab: Lab, network: SwitchGraph) -> Iterator[SwitchRoute]:
    nothing = np.zeros(network.size, np.float64)
    for number, name in enumerate(network.names):
        rib = rib_to(network, number, alive(network), nothing)
        for prefix in prefixes_of(lab.fabric.device(name)):
            for other, width in zip(network.names, rib.widths, strict=True):
                if other != name and width > 0:
                    yield SwitchRoute(switch=other, prefix=prefix, width_count=int(width))


def running_routes(lab: Lab, *, kernel: bool = False) -> frozenset[SwitchRoute]:
    """Return the routes of the daemons (RIB) or the kernel (FIB) to prefixes of the design."""
    known = {prefix for device in lab.fabric.switches for prefix in prefixes_of(device)}
    read = _fib if kernel else _rib
    with ThreadPoolExecutor(max_workers=4) as pool:
        tables = pool.map(lambda device: list(read(lab, device, known)), lab.fabric.switches)
        return frozenset(route for routes in tables for route in routes)


def _rib(lab: Lab, device: Device, known: set[str]) -> Iterator[SwitchRoute]:
    table = cast(Mapping[str, list[Rows]], _vtysh(lab, device, "show ip route bgp json"))
    for prefix, entries in table.items():
        chosen = next((entry for entry in entries if entry.get("selected")), None)
        if prefix in known and chosen is not None:
            hops = cast(list[Rows], chosen.get("nexthops", []))
            yield SwitchRoute(
                switch=device.name,
                prefix=prefix,
                width_count=sum(bool(hop.get("fib")) for hop in hops),
            )


def _fib(lab: Lab, device: Device, known: set[str]) -> Iterator[SwitchRoute]:
    rows = cast(
        list[Rows],
        host.run_json(
            ["ip", "-n", lab.namespace(device.name), "-j", "route", "show", "proto", "bgp"]
        ),
    )
    for row in rows:
        prefix = str(row["dst"])
        prefix = prefix if "/" in prefix else f"{prefix}/32"
        if prefix in known:
            hops = cast(list[Plain], row.get("nexthops") or [row])
            yield SwitchRoute(switch=device.name, prefix=prefix, width_count=len(hops))


def _vtysh(lab: Lab, device: Device, command: str) -> Plain:
    try:
        return host.run_json(["vtysh", "-N", lab.namespace(device.name), "-c", command])
    except ExternalError as failure:
        raise ExternalError(
            device.name,
            f"its routing daemons do not answer: {failure.problem.what}",
            "wait if `gpuyard lab up` still runs; else `gpuyard lab down` and start again",
        ) from failure


def sessions(lab: Lab, device: Device) -> tuple[int, int]:
    """Return the numbers of established and of configured BGP sessions of a switch."""
    answer = cast(Mapping[str, Rows], _vtysh(lab, device, "show bgp ipv4 unicast summary json"))
    peers = cast(
        Mapping[str, Rows],
        answer.get("peers") or (answer.get("ipv4Unicast") or {}).get("peers") or {},
    )
    return sum(peer.get("state") == "Established" for peer in peers.values()), len(peers)


def status(lab: Lab) -> LabStatus:
    """Return sessions, routes and ECMP widths of every switch, compared with the design."""
    expected = computed_routes(lab)
    actual = running_routes(lab, kernel=True)
    width = {(route.switch, route.prefix): route.width_count for route in actual}
    with ThreadPoolExecutor(max_workers=4) as pool:
        counts = list(pool.map(lambda device: sessions(lab, device), lab.fabric.switches))
    rows = []
    for device, (up, peers) in zip(lab.fabric.switches, counts, strict=True):
        mine = [route for route in expected if route.switch == device.name]
        wide = [route for route in mine if route.width_count > 1]
        rows.append(
            SwitchStatus(
                name=device.name,
                role=device.role,
                sessions_up_count=up,
                sessions_count=peers,
                routes_count=sum((device.name, route.prefix) in width for route in mine),
                expected_count=len(mine),
                least_width_count=min(
                    (width.get((device.name, route.prefix), 0) for route in wide), default=0
                ),
                designed_width_count=min((route.width_count for route in wide), default=0),
            )
        )
    return LabStatus(name=lab.name, switches=tuple(rows), servers_count=len(lab.fabric.servers))


def wait(lab: Lab, limit_s: float = 60.0) -> float:
    """Wait until every kernel has every computed route at full ECMP width; return the seconds."""
    expected = computed_routes(lab)
    start_s = time.monotonic()
    while True:
        actual = running_routes(lab, kernel=True)
        passed_s = time.monotonic() - start_s
        if expected <= actual:
            return passed_s
        if passed_s > limit_s:
            missing = min(expected - actual, key=lambda route: (route.switch, route.prefix))
            raise ExternalError(
                f"lab {lab.name}",
                f"not converged after {limit_s:g} s: {missing.switch} lacks"
                f" {missing.width_count} next hops to {missing.prefix}",
                "run `gpuyard lab verify` to find the cable or session",
            )
        time.sleep(0.2)
