"""The subject of a verification: cabling, configuration, and routes and failures computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuyard.catalog.load import Catalog
from gpuyard.fabric.fabric import Device, Fabric, by_name
from gpuyard.fabric.verify.deadlock import Deadlock, deadlock
from gpuyard.fabric.verify.failures import (
    Failures,
    Impact,
    Progress,
    failures,
    healthy_impact,
    ignore_progress,
)
from gpuyard.fabric.verify.sessions import DeadSession, WrongAsn, dead_sessions, wrong_asns
from gpuyard.fabric.verify.switch_graph import Policy, Speaker, SwitchGraph, network_of, speakers_of
from gpuyard.topology.nodes import Node
from gpuyard.topology.topology import Topology
from gpuyard.topology.wiring import Wiring

# Juniper's AI designs: with two spines, a double failure under load ended in PFC storms.
LEAST_SPINES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ConfiguredFabric:
    """A fabric with its configuration: devices by name, and BGP sessions that cannot come up."""

    fabric: Fabric
    topology: Topology
    catalog: Catalog
    devices: dict[str, Device]
    dead: tuple[DeadSession, ...]
    wrong_asns: tuple[WrongAsn, ...] = ()  # root causes of some of the dead sessions
    lost_pairs_count: int = 0  # pairs of leaves without a route because of them

    @property
    def has_pfc(self) -> bool:
        """True for a fabric with a lossless Ethernet class."""
        return self.fabric.lossless.transport == "roce"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Subject:
    """A fabric, or cabling without configuration, ready to be checked."""

    topology: Topology
    wiring: Wiring
    nodes: dict[str, Node]
    network: SwitchGraph
    healthy: Impact
    failures: Failures
    deadlock: Deadlock
    oversubscription_ratio: float
    least_spines: int
    configured: ConfiguredFabric | None = None


def subject_of(
    fabric: Fabric,
    catalog: Catalog,
    on_progress: Progress = ignore_progress,
    built: Topology | None = None,
) -> Subject:
    """Return the subject of a fabric, or of its configuration over as-built cabling."""
    topology = built or fabric.topology
    devices = by_name(fabric.devices)
    network, dead = network_as_built(fabric, topology)
    causes = wrong_asns(fabric, dead, devices)
    lost = healthy_impact(network).lost_pairs_count if causes else 0
    if causes:  # other checks see the network with these corrected: one fault is one finding
        network, _ = network_as_built(_with_asns(fabric, causes), topology)
        lost -= healthy_impact(network).lost_pairs_count
    return _subject(
        topology,
        network,
        on_progress,
        fabric.demand.oversubscription_ratio,
        fabric.demand.min_spines,
        ConfiguredFabric(
            fabric=fabric,
            topology=topology,
            catalog=catalog,
            devices=devices,
            dead=dead,
            wrong_asns=causes,
            lost_pairs_count=lost,
        ),
    )


def _with_asns(fabric: Fabric, causes: Sequence[WrongAsn]) -> Fabric:
    expected = {cause.device: cause.expected_asn for cause in causes}
    devices = tuple(
        replace(device, asn=expected.get(device.name, device.asn)) for device in fabric.devices
    )
    return replace(fabric, devices=devices)


def network_as_built(
    fabric: Fabric, topology: Topology
) -> tuple[SwitchGraph, tuple[DeadSession, ...]]:
    """Return the switch graph of a configuration over cabling, and the sessions that stay down."""
    devices = by_name(fabric.devices)
    dead = tuple(dead_sessions(fabric, topology, devices))
    policy = Policy(
        marks_down=bool(fabric.routing.from_above),
        refuses_up=bool(fabric.routing.from_above),
        multipath_count=fabric.routing.multipath_count,
    )
    speakers = speakers_of(topology, policy)
    if fabric.routing.protocol == "ebgp":
        for name in speakers.keys() & devices.keys():
            speakers[name] = Speaker(asn=devices[name].asn or 0, policy=policy)
    return network_of(topology, speakers, frozenset(session.link for session in dead)), dead


def subject_of_topology(
    topology: Topology,
    on_progress: Progress = ignore_progress,
    oversubscription_ratio: float = 1.0,
    least_spines: int = LEAST_SPINES,
) -> Subject:
    """Return the subject of cabling; its switches are assumed to route as in gpuyard's designs."""
    network = network_of(topology, speakers_of(topology))
    return _subject(topology, network, on_progress, oversubscription_ratio, least_spines, None)


def _subject(
    topology: Topology,
    network: SwitchGraph,
    on_progress: Progress,
    ratio: float,
    spines: int,
    configured: ConfiguredFabric | None,
) -> Subject:
    return Subject(
        topology=topology,
        wiring=Wiring.of(topology),
        nodes={node.name: node for node in topology.nodes},
        network=network,
        healthy=healthy_impact(network),
        failures=failures(network, on_progress),
        deadlock=deadlock(network),
        oversubscription_ratio=ratio,
        least_spines=spines,
        configured=configured,
    )
