"""Faults of published designs and of daily work: each is found where it is, and not found where it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from gpuyard.fabric import Bfd, Fabric, Vrf
from gpuyard.fabric.lossless import PROFILES, Pfc
from gpuyard.fabric.lossless.balancing import Balancer
from gpuyard.fabric.verify import Verification
from gpuyard.topology import Topology

from .shapes import clos, fabric, found, proven, swapped, with_device, with_lossless

QOS = {profile.name: profile for profile in PROFILES}


def qos(whole: Fabric, **changes: object) -> Fabric:
    """The fabric with its QoS changed."""
    return with_lossless(whole, qos=replace(whole.lossless.qos, **changes))  # type: ignore[arg-type]


def cnp(whole: Fabric, **changes: object) -> Fabric:
    """The fabric with its class for notifications changed."""
    classes = tuple(
        replace(each, **changes) if each.kind == "cnp" else each  # type: ignore[arg-type]
        for each in whole.lossless.qos.classes
    )
    return qos(whole, classes=classes)


def routed(whole: Fabric, **changes: object) -> Fabric:
    """The fabric with its routing changed."""
    return replace(whole, routing=replace(whole.routing, **changes))  # type: ignore[arg-type]


def longer(whole: Fabric, length_m: float) -> Topology:
    """The fabric's cabling with other lengths between switches."""
    links = tuple(link if "server" in link.b.node else replace(link, cable_m=length_m) for link in whole.topology.links)
    return replace(whole.topology, links=links)


def room(whole: Fabric, room_bytes: int) -> Fabric:
    """The fabric with another room for headroom."""
    buffers = tuple(replace(each, plan=replace(each.plan, room_bytes=room_bytes)) for each in whole.lossless.buffers)
    return with_lossless(whole, buffers=buffers)


def mixed_rails() -> Topology:
    """Two NICs of a server on each other's leaf."""
    whole = clos()
    one, other = (
        next(link for link in whole.links if link.b.node == "server-1" and link.b.port == f"gpu{rail}_eth")
        for rail in (1, 2)
    )
    return swapped(whole, one, other)


def uneven() -> Topology:
    """One leaf with two links to one spine and none to another."""
    whole = clos()
    moved = next(link for link in whole.links if link.a.node == "leaf-s1-r1" and link.b.node == "spine-4")
    spare = replace(moved, b=replace(moved.b, node="spine-3", port="spare"))
    return replace(whole, links=(*whole.without(links=(moved,)).links, spare))


def same_asn(whole: Fabric) -> Fabric:
    """Two leaves with one AS number."""
    one, other = whole.of_role("leaf")[:2]
    return with_device(whole, one.name, lambda device: replace(device, asn=other.asn))


def same_loopback(whole: Fabric) -> Fabric:
    """Two leaves with one loopback, so with one route distinguisher."""
    one, other = whole.of_role("leaf")[:2]
    return with_device(whole, one.name, lambda device: replace(device, loopback=other.loopback))


def slower_ports(whole: Fabric) -> Topology:
    """The cabling with NICs of another speed than the buffer profiles were made for."""
    links = tuple(
        replace(link, speed_bits_per_s=200e9) if "server" in link.b.node else link for link in whole.topology.links
    )
    return replace(whole.topology, links=links)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """A fault, the check that finds it, and words that must be in what it says."""

    number: int
    check: str
    broken: Callable[[], Verification]
    sound: Callable[[], Verification]
    says: str


TENANTS = Vrf(name="blue", vni=20001, route_target="target:20001:1")
SONIC = {"leaf": "sn5600", "os": "sonic"}
ADAPTIVE = {"leaf": "sn5600", "os": "cumulus", "balancing": "adaptive"}
LINTS = (
    Lint(number=1, check="oversubscription", says="2:1",  # Apstra's template of 64 A100 servers
         broken=lambda: proven(clos(servers=32, rails=8, spines=8, down_bits_per_s=200e9)),
         sound=lambda: proven(clos(servers=32, rails=8, spines=16, down_bits_per_s=200e9))),
    Lint(number=2, check="name", says="says 256 servers, and there are 2",
         broken=lambda: proven(fabric(), name="AI Cluster 256 DGX-A100 Storage Fabric"),
         sound=lambda: proven(fabric(), name="AI Cluster 2 DGX-H100")),
    Lint(number=3, check="spines", says="has 2 links to spine-3 and 1 to",
         broken=lambda: proven(uneven()), sound=lambda: proven(clos())),
    Lint(number=3, check="spines", says="2 spines",
         broken=lambda: proven(clos(spines=2, parallel=2)), sound=lambda: proven(clos())),
    Lint(number=4, check="rails", says="is of rail 2 and goes to leaf-s1-r3",
         broken=lambda: proven(mixed_rails()), sound=lambda: proven(clos())),
    Lint(number=5, check="qos", says="DSCP 26, with which the NIC marks RDMA, goes to tc1",
         broken=lambda: proven(qos(fabric(**SONIC), classes=QOS["sonic-default"].classes)),
         sound=lambda: proven(fabric(**SONIC))),
    Lint(number=5, check="qos", says="trusts PCP",
         broken=lambda: proven(with_lossless(fabric(), nic=replace(fabric().lossless.nic, trust="pcp"))),
         sound=lambda: proven(fabric())),
    Lint(number=5, check="qos", says="PFC is on for priorities 4",
         broken=lambda: proven(qos(fabric(), pfc=Pfc(priorities=(4,)))), sound=lambda: proven(fabric())),
    Lint(number=6, check="pfc-scope", says="are not paused",
         broken=lambda: proven(qos(fabric(), pfc=Pfc(priorities=(3,), scope="server-facing"))),
         sound=lambda: proven(fabric())),
    Lint(number=7, check="headroom", says="283,648 bytes reserved, and 677,888 may arrive",
         broken=lambda: proven(fabric(**SONIC), longer(fabric(**SONIC), 300.0)),
         sound=lambda: proven(fabric(**SONIC), longer(fabric(**SONIC), 40.0))),
    Lint(number=7, check="headroom-pool", says="there is room for 1MB",
         broken=lambda: proven(room(fabric(), 1_000_000)), sound=lambda: proven(room(fabric(), 100_000_000))),
    Lint(number=7, check="headroom", says="no headroom is published",  # an empty table of profiles
         broken=lambda: proven(fabric(spine="ptx10016")), sound=lambda: proven(fabric())),
    Lint(number=8, check="ecn", says="PFC pauses first",
         broken=lambda: proven(qos(fabric(), ecn=replace(fabric().lossless.qos.ecn, high_fill_ratio=1.0))),
         sound=lambda: proven(fabric())),
    Lint(number=8, check="ecn", says="marks all packets at 200MB",
         broken=lambda: proven(qos(fabric(**SONIC), ecn=replace(fabric(**SONIC).lossless.qos.ecn,
                                                                high_bytes=200_000_000))),
         sound=lambda: proven(fabric(**SONIC))),
    Lint(number=9, check="watchdog", says="detect time 100 ms is below the poll interval 400 ms",
         broken=lambda: proven(with_lossless(fabric(), watchdog=replace(fabric().lossless.watchdog, poll_s=0.4,
                                                                        detect_s=0.1, restore_s=0.4))),
         sound=lambda: proven(fabric())),
    Lint(number=9, check="bfd", says="are given up after 150ms",
         broken=lambda: proven(routed(fabric(), bfd=Bfd(interval_s=0.05, multiplier=3))),
         sound=lambda: proven(fabric())),
    Lint(number=10, check="mtu", says="send packets of 9200 bytes",
         broken=lambda: proven(routed(fabric(), host_mtu_bytes=9200)), sound=lambda: proven(fabric())),
    Lint(number=11, check="balancing", says="works with 1 link between two switches; here are 16",
         broken=lambda: proven(with_lossless(fabric(), balancing=Balancer(mode="global"))),
         sound=lambda: proven(fabric())),
    Lint(number=12, check="balancing", says="does not work on links above 400 Gb/s",
         broken=lambda: proven(fabric(**ADAPTIVE, nic_bits_per_s=800e9)),
         sound=lambda: proven(fabric(**ADAPTIVE))),
    Lint(number=13, check="balancing-same", says="runs sonic among junos",
         broken=lambda: proven(with_device(fabric(), "spine-1", lambda device: replace(device, os="sonic"))),
         sound=lambda: proven(fabric())),
    Lint(number=14, check="unique", says="has AS number",
         broken=lambda: proven(same_asn(fabric())), sound=lambda: proven(fabric())),
    Lint(number=14, check="unique", says="has route distinguisher",
         broken=lambda: proven(replace(same_loopback(fabric()), vrfs=(TENANTS,))),
         sound=lambda: proven(replace(fabric(), vrfs=(TENANTS,)))),
    Lint(number=14, check="unique", says="has VNI 20001, as blue has",
         broken=lambda: proven(replace(fabric(), vrfs=(TENANTS, replace(TENANTS, name="red", route_target="t")))),
         sound=lambda: proven(replace(fabric(), vrfs=(TENANTS, replace(TENANTS, name="red", vni=1, route_target="t"))))),
    Lint(number=14, check="pools", says="overlap",
         broken=lambda: proven(with_device(fabric(), "spine-1", lambda device: replace(
             device, asn=fabric().of_role("leaf")[3].asn))),
         sound=lambda: proven(fabric())),
    Lint(number=15, check="profiles", says="have no buffer profile",
         broken=lambda: proven(fabric(), slower_ports(fabric())), sound=lambda: proven(fabric())),
    Lint(number=16, check="valley", says="may send up what it learned from above",
         broken=lambda: proven(routed(fabric(), from_above="")), sound=lambda: proven(fabric())),
    Lint(number=17, check="cnp", says="is weighted",
         broken=lambda: proven(cnp(fabric(), schedule="weighted")), sound=lambda: proven(fabric())),
    Lint(number=17, check="cnp", says="is lossless",
         broken=lambda: proven(cnp(fabric(), lossless=True)), sound=lambda: proven(fabric())),
)  # fmt: skip


@pytest.mark.parametrize("lint", LINTS, ids=lambda lint: f"{lint.number}-{lint.check}")
def test_fault_is_found_where_it_is(lint: Lint) -> None:
    assert any(lint.says in line for line in found(lint.broken(), lint.check)), found(lint.broken(), lint.check)
    assert not found(lint.sound(), lint.check)


def test_every_fault_of_the_list_has_a_case() -> None:
    assert {lint.number for lint in LINTS} == set(range(1, 18))


def test_a_design_has_no_error() -> None:
    for whole in (fabric(), fabric(**SONIC), fabric(**ADAPTIVE), fabric(server_count=64, shape="rail-only"),
                  fabric(server_count=4, leaf="sn5600", shape="single-leaf"),
                  fabric(server_count=80, planes=2, nic_bits_per_s=800e9, leaf="sn5600")):  # fmt: skip
        assert not proven(whole).errors


def test_findings_that_differ_in_place_alone_are_told_once() -> None:
    told = [line for line in proven(clos(servers=8, spines=2)).findings if line.check == "oversubscription"]
    assert [(line.where, line.place_count) for line in told] == [("leaf-s1-r1", 8)]
