"""Simulate symmetric flows and links once.

Idea: colour flows and links and refine the colours (1-dimensional Weisfeiler-Leman) until flows of
a colour load links of the same colours and wait for flows of the same colours, and links of a
colour carry flows of the same colours. Such a partition is equitable, so max-min rates are equal
within a colour, and one flow and one link of each colour are enough.

Invariant: a refinement only splits colours, so equal numbers of colours mean that it is finished.

Source: M. Grohe, K. Kersting, M. Mladenov, E. Selman, "Dimension Reduction via Colour Refinement",
ESA 2014.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.jit import jit
from gpuyard.simulate.flow.problem import Dependents, FlowProblem, LinkShares, dependents_of
from gpuyard.simulate.splitmix import mix64, mix64_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
WORTH_RATIO = 0.7  # with more classes per flow than this, nothing is gained


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SymmetricProblem:
    """The problem of one flow and one link per class, and the class of each flow."""

    problem: FlowProblem
    flow_class: Ints


def symmetric_problem(problem: FlowProblem) -> SymmetricProblem | None:
    """Return the problem over classes of equal flows and links; None where few are equal."""
    order = dependency_order(problem)
    flow = _initial_colours(problem.size_bytes, problem.start_s, np.round(problem.latency_s, 14))
    link = _initial_colours(problem.capacity_bytes_per_s)
    share = np.round(problem.shares.share, 12).view(np.uint64)
    counts = len(np.unique(flow)), len(np.unique(link))
    while True:
        flow, link = _refine(problem, order, share, flow, link)
        refined = len(np.unique(flow)), len(np.unique(link))
        if refined[0] > WORTH_RATIO * problem.flow_count:
            return None
        if refined == counts:
            return _collapse(problem, flow, link)
        counts = refined


def dependency_order(problem: FlowProblem) -> Ints:
    """Return the flows in an order in which none waits for a later one.

    Raises:
        InputError: some flows wait for each other.
    """
    order = _topological_order(problem.after_index, dependents_of(problem))
    if len(order) < problem.flow_count:
        stuck = np.setdiff1d(np.arange(problem.flow_count), order)
        raise InputError.one(
            "traffic", f"flow {stuck[0]} waits for a flow that waits for it", "break the cycle"
        )
    return order


def _initial_colours(*columns: Floats) -> Hashes:
    colour = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        bits = np.ascontiguousarray(column, dtype=np.float64).view(np.uint64)
        colour = mix64_array(colour * np.uint64(31) + bits)
    return colour


def _collapse(problem: FlowProblem, flow: Hashes, link: Hashes) -> SymmetricProblem:
    """Represent each class by its first flow or link; flows add up their shares on that link."""
    _, first_flow, flow_class = np.unique(flow, return_index=True, return_inverse=True)
    _, first_link, link_class = np.unique(link, return_index=True, return_inverse=True)
    shares = problem.shares
    owner = flow_class[np.repeat(np.arange(problem.flow_count), np.diff(shares.offset))]
    on_first = first_link[link_class[shares.link]] == shares.link
    key = owner[on_first] * len(first_link) + link_class[shares.link[on_first]]
    pairs, pair = np.unique(key, return_inverse=True)
    share = np.bincount(pair, shares.share[on_first], minlength=len(pairs)).astype(np.float64)
    index = np.searchsorted(pairs, np.arange(len(first_flow) + 1) * len(first_link))
    after = [
        np.unique(flow_class[problem.after[problem.after_index[k] : problem.after_index[k + 1]]])
        for k in first_flow
    ]
    after_index = np.zeros(len(first_flow) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in after], out=after_index[1:])
    return SymmetricProblem(
        problem=FlowProblem(
            shares=LinkShares(index.astype(np.int64), pairs % len(first_link), share),
            capacity_bytes_per_s=problem.capacity_bytes_per_s[first_link],
            size_bytes=problem.size_bytes[first_flow],
            start_s=problem.start_s[first_flow],
            latency_s=problem.latency_s[first_flow],
            after_index=after_index,
            after=np.concatenate(after).astype(np.int64),
        ),
        flow_class=flow_class,
    )


@jit
def _refine(
    problem: FlowProblem, order: Ints, share: Hashes, flow: Hashes, link: Hashes
) -> tuple[Hashes, Hashes]:
    """Refine once: flows by their links and the flows they wait for, then links by their flows.

    Colours are hashes; sums of them do not depend on the order of neighbours.
    """
    index, used = problem.shares.offset, problem.shares.link
    new_flow, new_link = np.empty_like(flow), link.copy()
    for k in order:  # the new colours of the flows that k waits for are known
        links = np.uint64(0)
        for e in range(index[k], index[k + 1]):
            links += mix64(link[used[e]] ^ mix64(share[e]))
        waits = np.uint64(0)
        for a in range(problem.after_index[k], problem.after_index[k + 1]):
            waits += mix64(new_flow[problem.after[a]] ^ np.uint64(0x5851F42D4C957F2D))
        new_flow[k] = mix64(flow[k] + mix64(links) + np.uint64(3) * mix64(waits))
    for k in range(len(flow)):
        for e in range(index[k], index[k + 1]):
            new_link[used[e]] += mix64(new_flow[k] ^ mix64(share[e] + np.uint64(1)))
    for k in range(len(link)):
        new_link[k] = mix64(new_link[k])
    return new_flow, new_link


@jit
def _topological_order(after_index: Ints, dependents: Dependents) -> Ints:
    """Kahn's algorithm; flows on a cycle are left out."""
    flows = len(after_index) - 1
    order, count, done = np.empty(flows, dtype=np.int64), 0, 0
    waits = np.empty(flows, dtype=np.int64)
    for k in range(flows):
        waits[k] = after_index[k + 1] - after_index[k]
        if waits[k] == 0:
            order[count] = k
            count += 1
    while done < count:
        flow = order[done]
        done += 1
        for dependent in dependents.flow[dependents.offset[flow] : dependents.offset[flow + 1]]:
            waits[dependent] -= 1
            if waits[dependent] == 0:
                order[count] = dependent
                count += 1
    return order[:count]
