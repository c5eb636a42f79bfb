"""Faults: what fails, when, until when, and the reconvergence time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, Problem
from gpuyard.simulate.network import Network


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
    """A failed switch or host NIC with all its cables; routes avoid it after `reconverge_s`."""

    node: str
    at_s: float
    until_s: float = math.inf
    reconverge_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLink:
    """A cable at a fraction of its rate: a NIC in a slower slot, a link that lost lanes."""

    one: str
    other: str
    rate_ratio: float
    at_s: float = 0.0
    until_s: float = math.inf
    cable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A slow host: each of its flows starts late by `lag_s`."""

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
    """Return the links, both directions, that a fault affects."""
    if isinstance(fault, NodeDown):
        node = network.node(fault.node)
        return np.flatnonzero((network.link_from == node) | (network.link_to == node))
    links = network.links_between(network.node(fault.one), network.node(fault.other))
    if not 0 <= fault.cable < len(links):
        raise InputError.one(
            "fault",
            f"{len(links)} cables between {fault.one} and {fault.other}, not {fault.cable + 1}",
            "name nodes that are joined, and a cable from 0",
        )
    link = links[fault.cable]
    return np.array([link, link ^ 1])


def check_faults(network: Network, faults: tuple[Fault, ...]) -> None:
    """Raise InputError with everything that is wrong with the faults."""
    problems: list[Problem] = []
    for place, fault in enumerate(faults):
        where = f"fault {place}"
        try:
            if isinstance(fault, Straggler | PfcStorm):
                if network.node(fault.host) >= network.host_count:
                    problems.append(
                        Problem(where=where, what=f"{fault.host} is no host", fix="name a host")
                    )
            else:
                fault_links(network, fault)
        except InputError as error:
            problems += [
                Problem(where=where, what=problem.what, fix=problem.fix)
                for problem in error.problems
            ]
        if not 0 <= fault.at_s < fault.until_s:
            problems.append(
                Problem(where=where, what="it ends before it begins", fix="0 ≤ at_s < until_s")
            )
        if isinstance(fault, SlowLink) and not 0 < fault.rate_ratio <= 1:
            problems.append(
                Problem(
                    where=where, what="rate_ratio outside 0 to 1", fix="give the share that is left"
                )
            )
        if isinstance(fault, Straggler) and fault.lag_s < 0:
            problems.append(Problem(where=where, what="a negative lag", fix="give it in seconds"))
    if problems:
        raise InputError(problems)
