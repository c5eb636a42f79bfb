"""What checks look at: the cabling, the fabric if there is one, and the routes, failures and waits reckoned once."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.catalog import Catalog
from gpuyard.fabric.fabric import Device, Fabric, by_name
from gpuyard.fabric.verify.deadlock import Deadlock, deadlock
from gpuyard.fabric.verify.failures import Failures, Impact, Progress, failures, intact, quiet
from gpuyard.fabric.verify.network import Network, Policy, Speaker, network_of, speakers_of
from gpuyard.fabric.verify.sessions import DeadSession, dead_sessions
from gpuyard.topology import Node, Topology, Wiring

__all__ = ["Configured", "Subject", "network_as_built", "subject_of", "subject_of_topology"]

LEAST_SPINES = 4  # Juniper's AI designs: with two, a double failure under load ended in PFC storms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Configured:
    """A fabric with its cabling, its catalog, its devices by name, and the sessions that cannot come up."""

    fabric: Fabric
    topology: Topology
    catalog: Catalog
    devices: dict[str, Device]
    dead: tuple[DeadSession, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Subject:
    """A fabric, or cabling alone, ready to be checked."""

    topology: Topology
    wiring: Wiring
    nodes: dict[str, Node]
    network: Network
    intact: Impact
    failures: Failures
    deadlock: Deadlock
    oversubscription_ratio: float
    least_spines: int
    configured: Configured | None = None


def subject_of(fabric: Fabric, catalog: Catalog, told: Progress = quiet, built: Topology | None = None) -> Subject:
    """The subject of a fabric, or of the fabric as it was built: its configuration over other cabling."""
    topology = built or fabric.topology
    devices = by_name(fabric.devices)
    network, dead = network_as_built(fabric, topology)
    return _subject(
        topology, network, told, fabric.demand.oversubscription_ratio, fabric.demand.min_spines,
        Configured(fabric=fabric, topology=topology, catalog=catalog, devices=devices, dead=dead),
    )  # fmt: skip


def network_as_built(fabric: Fabric, topology: Topology) -> tuple[Network, tuple[DeadSession, ...]]:
    """The fabric's configuration over cabling: who speaks to whom, and the sessions that cannot come up."""
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
    topology: Topology, told: Progress = quiet, oversubscription_ratio: float = 1.0, least_spines: int = LEAST_SPINES
) -> Subject:  # fmt: skip
    """The subject of cabling alone; its switches are taken to route as gpuyard's designs do."""
    network = network_of(topology, speakers_of(topology))
    return _subject(topology, network, told, oversubscription_ratio, least_spines, None)


def _subject(
    topology: Topology, network: Network, told: Progress, ratio: float, spines: int, configured: Configured | None
) -> Subject:  # fmt: skip
    """Everything that several checks need."""
    return Subject(
        topology=topology,
        wiring=Wiring.of(topology),
        nodes={node.name: node for node in topology.nodes},
        network=network,
        intact=intact(network),
        failures=failures(network, told),
        deadlock=deadlock(network),
        oversubscription_ratio=ratio,
        least_spines=spines,
        configured=configured,
    )
