"""All-to-all without listing its flows: hosts on the same switch with the same rate are one class.

All flows have one size and begin together, so the first rates are the last word: a flow that is done frees no link
that holds another back.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.simulate.collectives.rounds import Exchange
from gpuyard.simulate.flow.entries import Ways, loads_of, problem_of
from gpuyard.simulate.flow.fill import max_min_rates
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.network import Network
from gpuyard.simulate.routes import NONE, Routes
from gpuyard.simulate.traffic import traffic_of

__all__ = ["MOST_FLOWS", "exchange_s"]

Ints = npt.NDArray[np.int64]
FEW_FLOWS = 500_000  # that are listed in any case
MOST_FLOWS = 20_000_000  # that are listed one by one, where hashing makes each its own


def exchange_s(ways: Ways, item: Exchange, settings: FlowSettings) -> tuple[float, float, float, int]:
    """Slowest and fastest rate of an exchange, its seconds, and the number of its flows."""
    servers, rails = item.hosts.shape
    flows = servers * rails * (servers - 1 if item.same_rail else servers * rails - 1)
    if settings.balance == "ecmp" or flows <= FEW_FLOWS:
        if flows > MOST_FLOWS:
            fix = 'balance "spray" or "adaptive", which need no list of flows'
            raise InputError.one("all-to-all", f"{flows} hashed flows are too many to list", f"use {fix}")
        source, target = _pairs(item)
        return _solve(ways, source, target, np.ones(len(source)), None, item, settings, flows)
    source, target, out, into, total = _classes(ways.network, ways.routes, item)
    return _solve(ways, source, target, out, (into, total), item, settings, flows)


def _pairs(item: Exchange) -> tuple[Ints, Ints]:
    """Every flow."""
    columns = item.hosts if item.same_rail else item.hosts.reshape(-1, 1)
    source = np.tile(columns.reshape(-1), len(columns) - 1)
    target = np.concatenate([np.roll(columns, -shift, axis=0).reshape(-1) for shift in range(1, len(columns))])
    return source, target


def _solve(
    ways: Ways,
    source: Ints,
    target: Ints,
    out: npt.NDArray[np.float64],
    counts: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None,
    item: Exchange,
    settings: FlowSettings,
    flows: int,
) -> tuple[float, float, float, int]:
    """Rates of flows, or of classes with their loads on one source's link, one target's link and all between."""
    traffic = traffic_of(source, target, max(1, round(item.size_bytes)), channel=0)
    loads = loads_of(ways, traffic)
    problem = problem_of(traffic, loads, settings)
    weight = problem.entry_weight
    if counts is not None:
        into, total = counts
        net = ways.network
        owner = np.repeat(np.arange(len(source)), np.diff(problem.entry_index))
        first = net.link_from[problem.entry_link] < net.host_count
        last = net.link_to[problem.entry_link] < net.host_count
        weight = weight * np.where(first, out[owner], np.where(last, into[owner], total[owner]))
    rates = max_min_rates(problem.entry_index, problem.entry_link, weight, problem.capacity_bytes_per_s)
    seconds = float((problem.size_bytes / rates + problem.latency_s).max())
    return float(rates.min()), float(rates.max()), seconds, flows


def _classes(
    network: Network, routes: Routes, item: Exchange
) -> tuple[Ints, Ints, npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """A source and a target for each pair of classes, and the flows on the source's link, the target's, and in all."""
    hosts, server = item.hosts.reshape(-1), np.repeat(np.arange(item.hosts.shape[0]), item.hosts.shape[1])
    rail = np.tile(np.arange(item.hosts.shape[1]), item.hosts.shape[0])
    label = _labels(network, routes, hosts, rail if item.same_rail else None)
    count = int(label.max()) + 1
    size = np.bincount(label, minlength=count)
    joined = bool(np.all(routes.scale_up[hosts] != NONE))
    inside: Ints = network.server[hosts].astype(np.int64) if joined else np.arange(len(hosts), dtype=np.int64)
    near = _neighbours(label, inside if not item.same_rail else np.arange(len(hosts)), count)
    a, b = (axis.reshape(-1) for axis in np.indices((count, count)))
    far = size[a] * size[b] - near[a, b]  # flows over the fabric; the near ones are a host with itself or NVLink
    kept = far > 0
    if item.same_rail:
        of = np.zeros(count, dtype=np.int64)
        of[label] = rail
        kept &= of[a] == of[b]
    source, target = _representatives(hosts, label, inside, a[kept], b[kept])
    out, into, total = far[kept] / size[a[kept]], far[kept] / size[b[kept]], far[kept].astype(np.float64)
    mates = np.bincount(server)[0] - 1
    if not item.same_rail and mates and np.any(near.sum(axis=1) > size):
        source, target = np.append(source, item.hosts[:, 0]), np.append(target, item.hosts[:, 1])
        ones = np.full(len(item.hosts), float(mates))
        out, into, total = np.append(out, ones), np.append(into, ones), np.append(total, ones)
    return source, target, out, into, total


def _labels(network: Network, routes: Routes, hosts: Ints, rail: Ints | None) -> Ints:
    """A class for each host: its switches, the rate of its links, and its rail where that matters."""
    owner = np.repeat(np.arange(network.host_count), np.diff(routes.host_index))
    up = np.bincount(owner, network.rate_bits_per_s[routes.host_links], minlength=network.host_count)
    down = np.bincount(owner, network.rate_bits_per_s[routes.host_links ^ 1], minlength=network.host_count)
    key = np.stack([routes.group[hosts], up[hosts], down[hosts], rail if rail is not None else 0 * hosts], axis=1)
    return np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)


def _neighbours(label: Ints, inside: Ints, count: int) -> Ints:
    """Pairs of hosts in one server, and of a host with itself, for each pair of classes."""
    order = np.argsort(inside, kind="stable")
    sizes = np.unique(inside, return_counts=True)[1]
    near = np.zeros((count, count), dtype=np.int64)
    if len(set(sizes.tolist())) != 1:
        raise InputError.one("all-to-all", "servers with different numbers of hosts", "take the same of each server")
    rows = label[order].reshape(-1, sizes[0])
    for one in range(sizes[0]):
        for other in range(sizes[0]):
            np.add.at(near, (rows[:, one], rows[:, other]), 1)
    return near


def _representatives(hosts: Ints, label: Ints, inside: Ints, a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Two hosts for each pair of classes, not of one server."""
    order = np.argsort(label, kind="stable")
    begin = np.searchsorted(label[order], np.arange(label.max() + 2))
    source = order[begin[a]]
    target = order[begin[b]]
    clash = inside[source] == inside[target]
    for place in np.flatnonzero(clash):
        members = order[begin[b[place]] : begin[b[place] + 1]]
        target[place] = members[np.argmax(inside[members] != inside[source[place]])]
    return hosts[source], hosts[target]
