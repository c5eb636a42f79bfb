"""Flows and links that symmetry makes equal, simulated once.

Colours of flows and links are refined until flows of a colour load links of the same colours and wait for flows of
the same colours, and links of a colour carry flows of the same colours. Max-min rates are then equal in each colour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.errors import InputError
from gpuyard.simulate.flow.problem import Problem, heirs_of

__all__ = ["Quotient", "quotient", "topological"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
WORTH_RATIO = 0.7  # with more classes than this share of the flows, nothing is gained


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Quotient:
    """The problem over classes, and the class of each flow and link."""

    problem: Problem
    flow_class: Ints
    link_class: Ints


def quotient(problem: Problem) -> Quotient | None:
    """The problem over classes of equal flows and links; None where hardly any are equal."""
    order = topological(problem)
    flow = _start(problem.size_bytes, problem.start_s, np.round(problem.latency_s, 14))
    link = _start(problem.capacity_bytes_per_s)
    weight = np.round(problem.entry_weight, 12).view(np.uint64)
    flows, links = len(np.unique(flow)), len(np.unique(link))
    while True:
        flow, link = _refine(
            order, problem.entry_index, problem.entry_link, weight, problem.after_index, problem.after, flow, link
        )
        more_flows, more_links = len(np.unique(flow)), len(np.unique(link))
        if more_flows > WORTH_RATIO * problem.flow_count:
            return None
        if (more_flows, more_links) == (flows, links):
            break
        flows, links = more_flows, more_links
    return _collapsed(problem, flow, link)


def topological(problem: Problem) -> Ints:
    """The flows in an order in which none waits for a later one; InputError if some wait for each other."""
    index, heirs = heirs_of(problem.after_index, problem.after)
    order = _kahn(problem.after_index, index, heirs)
    if len(order) < problem.flow_count:
        stuck = np.setdiff1d(np.arange(problem.flow_count), order)
        raise InputError.one("traffic", f"flow {stuck[0]} waits for a flow that waits for it", "break the circle")
    return order


def _start(*columns: Floats) -> Hashes:
    """A hash of each row."""
    colour = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        bits = np.ascontiguousarray(column, dtype=np.float64).view(np.uint64)
        colour = _mix_all(colour * np.uint64(31) + bits)
    return colour


def _collapsed(problem: Problem, flow: Hashes, link: Hashes) -> Quotient:
    """The problem over the classes of these colours."""
    _, keeper, flow_class = np.unique(flow, return_index=True, return_inverse=True)
    _, link_keeper, link_class = np.unique(link, return_index=True, return_inverse=True)
    owner = flow_class[np.repeat(np.arange(problem.flow_count), np.diff(problem.entry_index))]
    on_keeper = link_keeper[link_class[problem.entry_link]] == problem.entry_link
    key = owner[on_keeper] * len(link_keeper) + link_class[problem.entry_link[on_keeper]]
    pairs, which = np.unique(key, return_inverse=True)
    weight = np.bincount(which, problem.entry_weight[on_keeper], minlength=len(pairs)).astype(np.float64)
    entry_index = np.searchsorted(pairs, np.arange(len(keeper) + 1) * len(link_keeper))
    waits = [np.unique(flow_class[problem.after[problem.after_index[k] : problem.after_index[k + 1]]]) for k in keeper]
    after_index = np.zeros(len(keeper) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in waits], out=after_index[1:])
    return Quotient(
        problem=Problem(
            entry_index=entry_index.astype(np.int64),
            entry_link=pairs % len(link_keeper),
            entry_weight=weight,
            capacity_bytes_per_s=problem.capacity_bytes_per_s[link_keeper],
            size_bytes=problem.size_bytes[keeper],
            start_s=problem.start_s[keeper],
            latency_s=problem.latency_s[keeper],
            after_index=after_index,
            after=np.concatenate(waits).astype(np.int64),
        ),
        flow_class=flow_class,
        link_class=link_class,
    )


@compiled
def _mix(value: np.uint64) -> np.uint64:
    """A hash (the finaliser of SplitMix64)."""
    mixed = value + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@compiled
def _mix_all(values: Hashes) -> Hashes:
    """The hash of each."""
    made = np.empty_like(values)
    for k in range(len(values)):
        made[k] = _mix(values[k])
    return made


@compiled
def _refine(
    order: Ints,
    entry_index: Ints,
    entry_link: Ints,
    weight: Hashes,
    after_index: Ints,
    after: Ints,
    flow: Hashes,
    link: Hashes,
) -> tuple[Hashes, Hashes]:
    """One round: a flow sees its links and (already renewed) the flows it waits for, a link then sees its flows."""
    flows, links = np.empty_like(flow), link.copy()
    for k in order:
        seen = np.uint64(0)
        for e in range(entry_index[k], entry_index[k + 1]):
            seen += _mix(link[entry_link[e]] ^ _mix(weight[e]))
        waits = np.uint64(0)
        for a in range(after_index[k], after_index[k + 1]):
            waits += _mix(flows[after[a]] ^ np.uint64(0x5851F42D4C957F2D))
        flows[k] = _mix(flow[k] + _mix(seen) + np.uint64(3) * _mix(waits))
    for k in range(len(flow)):
        for e in range(entry_index[k], entry_index[k + 1]):
            links[entry_link[e]] += _mix(flows[k] ^ _mix(weight[e] + np.uint64(1)))
    for k in range(len(links)):
        links[k] = _mix(links[k])
    return flows, links


@compiled
def _kahn(after_index: Ints, heir_index: Ints, heirs: Ints) -> Ints:
    """Flows whose waits are over, in turn."""
    flows = len(after_index) - 1
    order, count, first = np.empty(flows, dtype=np.int64), 0, 0
    left = np.empty(flows, dtype=np.int64)
    for k in range(flows):
        left[k] = after_index[k + 1] - after_index[k]
        if left[k] == 0:
            order[count] = k
            count += 1
    while first < count:
        k = order[first]
        first += 1
        for place in range(heir_index[k], heir_index[k + 1]):
            left[heirs[place]] -= 1
            if left[heirs[place]] == 0:
                order[count] = heirs[place]
                count += 1
    return order[:count]
