"""Failures as values: what breaks, when, until when, and how long the network takes to notice."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, Problem
from gpuyard.simulate.network import Network

__all__ = ["Fault", "LinkDown", "NodeDown", "PfcStorm", "SlowLink", "Straggler", "check_faults", "fault_links"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDown:
    """A cable between two nodes is cut; routes avoid it after `reconverge_s`."""

    one: str
    other: str
    at_s: float
    until_s: float = math.inf
    reconverge_s: float = 0.0
    cable: int = 0  # which of parallel cables


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDown:
    """A switch, or the NIC of a host, is dead with all its cables; routes avoid it after `reconverge_s`."""

    node: str
    at_s: float
    until_s: float = math.inf
    reconverge_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLink:
    """A cable, both ways, runs at a fraction of its rate: a NIC in a slower slot, a link that lost lanes."""

    one: str
    other: str
    rate_ratio: float
    at_s: float = 0.0
    until_s: float = math.inf
    cable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A host that is late: every flow that it is to start starts so much later."""

    host: str
    lag_s: float
    at_s: float = 0.0
    until_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcStorm:
    """The broken NIC of a host sends pause frames without end."""

    host: str
    at_s: float
    until_s: float = math.inf


Fault = LinkDown | NodeDown | SlowLink | Straggler | PfcStorm


def fault_links(network: Network, fault: LinkDown | NodeDown | SlowLink) -> npt.NDArray[np.int64]:
    """The links, both ways, that a fault concerns."""
    if isinstance(fault, NodeDown):
        node = network.node(fault.node)
        return np.flatnonzero((network.link_from == node) | (network.link_to == node))
    found = network.links_between(network.node(fault.one), network.node(fault.other))
    if not 0 <= fault.cable < len(found):
        raise InputError.one(
            "fault", f"{len(found)} cables between {fault.one} and {fault.other}, not {fault.cable + 1}",
            "name nodes that are joined, and a cable from 0",
        )  # fmt: skip
    link = found[fault.cable]
    return np.array([link, link ^ 1])


def check_faults(network: Network, faults: tuple[Fault, ...]) -> None:
    """Raises InputError with everything that is wrong with the faults."""
    problems: list[Problem] = []
    for place, fault in enumerate(faults):
        where = f"fault {place}"
        try:
            if isinstance(fault, Straggler | PfcStorm):
                if network.node(fault.host) >= network.host_count:
                    problems.append(Problem(where=where, what=f"{fault.host} is no host", fix="name a host"))
            else:
                fault_links(network, fault)
        except InputError as error:
            problems += [Problem(where=where, what=each.what, fix=each.fix) for each in error.problems]
        if not 0 <= fault.at_s < fault.until_s:
            problems.append(Problem(where=where, what="it ends before it begins", fix="0 ≤ at_s < until_s"))
        if isinstance(fault, SlowLink) and not 0 < fault.rate_ratio <= 1:
            problems.append(Problem(where=where, what="rate_ratio outside 0 to 1", fix="give the share that is left"))
        if isinstance(fault, Straggler) and fault.lag_s < 0:
            problems.append(Problem(where=where, what="a negative lag", fix="give it in seconds"))
    if problems:
        raise InputError(problems)
