"""Faults of published designs and of daily work, each reported only where it exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from gpuyard.fabric.fabric import Fabric, Vrf
from gpuyard.fabric.lossless.balancing import LoadBalancing
from gpuyard.fabric.lossless.qos import PfcConfig
from gpuyard.fabric.render.junos.junos_profile import APSTRA_2024, JVD_QFX5240
from gpuyard.fabric.render.sonic.sonic_profile import SONIC_DEFAULT
from gpuyard.fabric.routing import Bfd
from gpuyard.fabric.verify.finding import Verification
from gpuyard.topology.topology import Topology

from .shapes import clos, fabric, swapped, verified, violations, with_device, with_lossless

QOS = {profile.name: profile for profile in (JVD_QFX5240, APSTRA_2024, SONIC_DEFAULT)}


def qos(whole: Fabric, **changes: object) -> Fabric:
    """The fabric with its QoS changed."""
    return with_lossless(whole, qos=replace(whole.lossless.qos, **changes))  # type: ignore[arg-type]


def ecn(whole: Fabric, **changes: object) -> Fabric:
    """The fabric with its ECN settings changed."""
    return qos(whole, ecn=replace(whole.lossless.qos.ecn, **changes))  # type: ignore[arg-type]


def cnp(whole: Fabric, **changes: object) -> Fabric:
    """The fabric with its class for notifications changed."""
    classes = tuple(
        replace(one, **changes) if one.kind == "cnp" else one  # type: ignore[arg-type]
        for one in whole.lossless.qos.classes
    )
    return qos(whole, classes=classes)


def routed(whole: Fabric, **changes: object) -> Fabric:
    """The fabric with its routing changed."""
    return replace(whole, routing=replace(whole.routing, **changes))  # type: ignore[arg-type]


def longer(whole: Fabric, length_m: float) -> Topology:
    """The fabric's cabling with other lengths between switches."""
    links = tuple(
        link if "server" in link.b.node else replace(link, cable_m=length_m)
        for link in whole.topology.links
    )
    return replace(whole.topology, links=links)


def room(whole: Fabric, room_bytes: int) -> Fabric:
    """The fabric with another room for headroom."""
    buffers = tuple(
        replace(one, plan=replace(one.plan, room_bytes=room_bytes))
        for one in whole.lossless.buffers
    )
    return with_lossless(whole, buffers=buffers)


def mixed_rails() -> Topology:
    """Two NICs of a server on each other's leaf."""
    whole = clos()
    one, other = (
        next(
            link
            for link in whole.links
            if link.b.node == "server-1" and link.b.port == f"gpu{rail}_eth"
        )
        for rail in (1, 2)
    )
    return swapped(whole, one, other)


def uneven() -> Topology:
    """One leaf with two links to one spine and none to another."""
    whole = clos()
    moved = next(
        link for link in whole.links if link.a.node == "leaf-s1-r1" and link.b.node == "spine-4"
    )
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
        replace(link, speed_bits_per_s=200e9) if "server" in link.b.node else link
        for link in whole.topology.links
    )
    return replace(whole.topology, links=links)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """A fault, the rule that reports it, and words of its message."""

    number: int
    rule: str
    broken: Callable[[], Verification]
    sound: Callable[[], Verification]
    says: str


TENANTS = Vrf(name="blue", vni=20001, route_target="target:20001:1")
SONIC = {"leaf": "sn5600", "os": "sonic"}
ADAPTIVE = {"leaf": "sn5600", "os": "cumulus", "balancing": "adaptive"}
LINTS = (
    Lint(number=1, rule="oversubscription", says="2:1",  # Apstra's template of 64 A100 servers
         broken=lambda: verified(clos(servers=32, rails=8, spines=8, down_bits_per_s=200e9)),
         sound=lambda: verified(clos(servers=32, rails=8, spines=16, down_bits_per_s=200e9))),
    Lint(number=2, rule="name", says="says 256 servers, and there are 2",
         broken=lambda: verified(fabric(), name="AI Cluster 256 DGX-A100 Storage Fabric"),
         sound=lambda: verified(fabric(), name="AI Cluster 2 DGX-H100")),
    Lint(number=3, rule="spines", says="has 2 links to spine-3 and 1 to",
         broken=lambda: verified(uneven()), sound=lambda: verified(clos())),
    Lint(number=3, rule="spines", says="2 spines",
         broken=lambda: verified(clos(spines=2, parallel=2)), sound=lambda: verified(clos())),
    Lint(number=4, rule="rails", says="belongs to rail 2 and goes to leaf-s1-r3",
         broken=lambda: verified(mixed_rails()), sound=lambda: verified(clos())),
    Lint(number=5, rule="qos", says="DSCP 26, which the NIC sets on RDMA, maps to tc1",
         broken=lambda: verified(qos(fabric(**SONIC), classes=QOS["sonic-default"].classes)),
         sound=lambda: verified(fabric(**SONIC))),
    Lint(number=5, rule="qos", says="trusts PCP",
         broken=lambda: verified(with_lossless(fabric(), nic=replace(fabric().lossless.nic, trust="pcp"))),
         sound=lambda: verified(fabric())),
    Lint(number=5, rule="qos", says="PFC is on for priorities 4",
         broken=lambda: verified(qos(fabric(), pfc=PfcConfig(priorities=(4,)))), sound=lambda: verified(fabric())),
    Lint(number=6, rule="pfc-scope", says="have no PFC",
         broken=lambda: verified(qos(fabric(), pfc=PfcConfig(priorities=(3,), scope="server-facing"))),
         sound=lambda: verified(fabric())),
    Lint(number=7, rule="headroom", says="283,648 bytes reserved, and 677,888 may arrive",
         broken=lambda: verified(fabric(**SONIC), longer(fabric(**SONIC), 300.0)),
         sound=lambda: verified(fabric(**SONIC), longer(fabric(**SONIC), 40.0))),
    Lint(number=7, rule="headroom-pool", says="and 1MB are available",
         broken=lambda: verified(room(fabric(), 1_000_000)), sound=lambda: verified(room(fabric(), 100_000_000))),
    Lint(number=7, rule="headroom", says="no headroom is published",  # an empty table of profiles
         broken=lambda: verified(fabric(spine="ptx10016")), sound=lambda: verified(fabric())),
    Lint(number=8, rule="ecn", says="PFC pauses first",
         broken=lambda: verified(qos(fabric(), ecn=replace(fabric().lossless.qos.ecn, high_fill_ratio=1.0))),
         sound=lambda: verified(fabric())),
    Lint(number=8, rule="ecn", says="marks all packets at 200MB",
         broken=lambda: verified(qos(fabric(**SONIC), ecn=replace(fabric(**SONIC).lossless.qos.ecn,
                                                                high_bytes=200_000_000))),
         sound=lambda: verified(fabric(**SONIC))),
    Lint(number=18, rule="ecn-marking", says="never marks",
         broken=lambda: verified(ecn(fabric(), mark_ratio=0.0)), sound=lambda: verified(fabric())),
    Lint(number=18, rule="ecn-marking", says="less than any published design",
         broken=lambda: verified(ecn(fabric(), mark_ratio=0.001)), sound=lambda: verified(ecn(fabric(), mark_ratio=0.01))),
    Lint(number=19, rule="ecn-thresholds", says="fewer than 3 packets of 9,216 bytes",
         broken=lambda: verified(ecn(fabric(**SONIC), low_bytes=100, high_bytes=1_000_000)),
         sound=lambda: verified(ecn(fabric(**SONIC), low_bytes=27_648, high_bytes=1_000_000))),
    Lint(number=19, rule="ecn-thresholds", says="fewer than 3 packets of 9,216 bytes",
         broken=lambda: verified(ecn(fabric(), low_fill_ratio=0.0001)), sound=lambda: verified(fabric())),
    Lint(number=19, rule="ecn-thresholds", says="below a seventh of the bandwidth-delay product",
         broken=lambda: verified(ecn(fabric(**SONIC), low_bytes=100, high_bytes=200)),
         sound=lambda: verified(fabric(**SONIC))),
    Lint(number=19, rule="ecn-thresholds", says="above the lossless buffer",
         broken=lambda: verified(ecn(fabric(**SONIC), high_bytes=200_000_000)), sound=lambda: verified(fabric(**SONIC))),
    Lint(number=19, rule="ecn-thresholds", says="has no ECN thresholds",
         broken=lambda: verified(ecn(fabric(), low_fill_ratio=None)), sound=lambda: verified(fabric())),
    Lint(number=9, rule="watchdog", says="detect time 100 ms is below the poll interval 400 ms",
         broken=lambda: verified(with_lossless(fabric(), watchdog=replace(fabric().lossless.watchdog, poll_s=0.4,
                                                                        detect_s=0.1, restore_s=0.4))),
         sound=lambda: verified(fabric())),
    Lint(number=9, rule="bfd", says="go down after 150ms",
         broken=lambda: verified(routed(fabric(), bfd=Bfd(interval_s=0.05, multiplier=3))),
         sound=lambda: verified(fabric())),
    Lint(number=10, rule="mtu", says="send packets of 9200 bytes",
         broken=lambda: verified(routed(fabric(), host_mtu_bytes=9200)), sound=lambda: verified(fabric())),
    Lint(number=11, rule="balancing", says="supports 1 link between two switches; this fabric has 8",
         broken=lambda: verified(with_lossless(fabric(server_count=32), balancing=LoadBalancing(mode="global"))),
         sound=lambda: verified(fabric())),
    Lint(number=12, rule="balancing", says="does not work on links above 400 Gb/s",
         broken=lambda: verified(with_lossless(fabric(leaf="sn5600", os="cumulus", nic_bits_per_s=800e9),
                                               balancing=LoadBalancing(mode="adaptive"))),
         sound=lambda: verified(fabric(**ADAPTIVE))),
    Lint(number=13, rule="balancing-same", says="runs sonic among junos",
         broken=lambda: verified(with_device(fabric(), "spine-1", lambda device: replace(device, os="sonic"))),
         sound=lambda: verified(fabric())),
    Lint(number=14, rule="unique", says="has AS number",
         broken=lambda: verified(same_asn(fabric())), sound=lambda: verified(fabric())),
    Lint(number=14, rule="unique", says="has route distinguisher",
         broken=lambda: verified(replace(same_loopback(fabric()), vrfs=(TENANTS,))),
         sound=lambda: verified(replace(fabric(), vrfs=(TENANTS,)))),
    Lint(number=14, rule="unique", says="has VNI 20001, which blue also has",
         broken=lambda: verified(replace(fabric(), vrfs=(TENANTS, replace(TENANTS, name="red", route_target="t")))),
         sound=lambda: verified(replace(fabric(), vrfs=(TENANTS, replace(TENANTS, name="red", vni=1, route_target="t"))))),
    Lint(number=14, rule="pools", says="overlap",
         broken=lambda: verified(with_device(fabric(), "spine-1", lambda device: replace(
             device, asn=fabric().of_role("leaf")[3].asn))),
         sound=lambda: verified(fabric())),
    Lint(number=15, rule="profiles", says="have no buffer profile",
         broken=lambda: verified(fabric(), slower_ports(fabric())), sound=lambda: verified(fabric())),
    Lint(number=16, rule="valley", says="may send up routes learned from above",
         broken=lambda: verified(routed(fabric(), from_above="")), sound=lambda: verified(fabric())),
    Lint(number=17, rule="cnp", says="is weighted",
         broken=lambda: verified(cnp(fabric(), schedule="weighted")), sound=lambda: verified(fabric())),
    Lint(number=17, rule="cnp", says="is lossless",
         broken=lambda: verified(cnp(fabric(), lossless=True)), sound=lambda: verified(fabric())),
)  # fmt: skip


@pytest.mark.parametrize("lint", LINTS, ids=lambda lint: f"{lint.number}-{lint.rule}")
def test_fault_is_reported_only_where_it_exists(lint: Lint) -> None:
    reported = violations(lint.broken(), lint.rule)
    assert any(lint.says in line for line in reported), reported
    assert not violations(lint.sound(), lint.rule)


def test_every_known_fault_has_a_case() -> None:
    assert {lint.number for lint in LINTS} == set(range(1, 20))


def test_designs_have_no_errors() -> None:
    for whole in (
        fabric(),
        fabric(**SONIC),
        fabric(**ADAPTIVE),
        fabric(server_count=64, shape="rail-only"),
        fabric(server_count=4, leaf="sn5600", shape="single-leaf"),
        fabric(server_count=80, planes=2, nic_bits_per_s=800e9, leaf="sn5600"),
    ):
        assert not verified(whole).errors


def test_findings_that_differ_only_in_place_are_merged() -> None:
    merged = [
        line
        for line in verified(clos(servers=8, spines=2)).findings
        if line.rule == "oversubscription"
    ]
    assert [(line.where, line.place_count) for line in merged] == [("leaf-s1-r1", 8)]


def test_one_wrong_as_number_is_one_finding_with_its_consequences() -> None:
    whole = fabric(server_count=64)
    broken = with_device(whole, "leaf-s1-r1", lambda device: replace(device, asn=65999))
    (only,) = verified(broken).errors
    assert (only.rule, only.where) == ("sessions", "leaf-s1-r1")
    assert "64 sessions stay down, and 14 pairs of leaves have no route" in only.what
    assert only.fix == "set its AS number to 65198"


def test_wrong_as_number_does_not_hide_another_fault() -> None:
    whole = fabric(server_count=64)
    broken = with_device(whole, "leaf-s1-r1", lambda device: replace(device, asn=65999))
    broken = with_device(broken, "spine-1", lambda device: replace(device, asn=65998))
    wrong = {error.where for error in verified(broken).errors}
    assert any("leaf-s1-r1" in where for where in wrong)
    assert any("spine-1" in where for where in wrong)
