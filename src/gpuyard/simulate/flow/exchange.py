"""All-to-all without listing its flows, by classes of equivalent hosts.

Idea: hosts on the same switches with the same rates are equivalent, so one flow per ordered pair of
classes is enough. Its share on the source's link, on the target's link and in between is the number
of flows that it stands for there.

Invariant: all flows have one size and begin together, so faster flows end first, and a faster flow
never uses the bottleneck of a slower one. Rates therefore stay as they are and are computed once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.simulate.collectives.rounds import Exchange
from gpuyard.simulate.flow.flow_links import FlowRoutes, build_problem, flow_link_shares
from gpuyard.simulate.flow.max_min import max_min_rates
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.flow.timeline import STALLED_BYTES_PER_S
from gpuyard.simulate.network import Network
from gpuyard.simulate.route_tables import NONE
from gpuyard.simulate.routes import Routes
from gpuyard.simulate.traffic import traffic_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FEW_FLOWS = 500_000  # up to here, flows are listed under any load balancing
MAX_FLOWS = 20_000_000  # limit of listed flows, under ECMP


class ExchangeTime(NamedTuple):
    """Duration of an exchange, and the number of its flows."""

    duration_s: float
    flow_count: int


class _PairClasses(NamedTuple):
    """One flow for each ordered pair of classes, and how many flows it stands for."""

    source: Ints
    target: Ints
    at_source: Floats  # on the link of the source
    at_target: Floats
    total: Floats  # on links between switches


def simulate_exchange(routes: FlowRoutes, item: Exchange, settings: FlowSettings) -> ExchangeTime:
    """Simulate an all-to-all in which all flows start together."""
    servers, rails = item.hosts.shape
    flows = servers * rails * (servers - 1 if item.same_rail else servers * rails - 1)
    if settings.balance != "ecmp" and flows > FEW_FLOWS:
        classes = _pair_classes(routes.network, routes.routes, item)
        return _solve(routes, classes.source, classes.target, classes, item, settings, flows)
    if flows > MAX_FLOWS:
        raise InputError.one(
            "all-to-all",
            f"{flows} hashed flows are too many to list",
            'use balance "spray" or "adaptive", which need no list of flows',
        )
    columns = item.hosts if item.same_rail else item.hosts.reshape(-1, 1)
    source = np.tile(columns.reshape(-1), len(columns) - 1)
    target = np.concatenate(
        [np.roll(columns, -shift, axis=0).reshape(-1) for shift in range(1, len(columns))]
    )
    return _solve(routes, source, target, None, item, settings, flows)


def _solve(
    routes: FlowRoutes,
    source: Ints,
    target: Ints,
    classes: _PairClasses | None,
    item: Exchange,
    settings: FlowSettings,
    flows: int,
) -> ExchangeTime:
    traffic = traffic_of(source, target, max(1, round(item.size_bytes)), channel=0)
    problem = build_problem(traffic, flow_link_shares(routes, traffic), settings)
    shares = problem.shares
    if classes is not None:
        net = routes.network
        owner = np.repeat(np.arange(len(source)), np.diff(shares.offset))
        first = net.link_from[shares.link] < net.host_count
        last = net.link_to[shares.link] < net.host_count
        inner = np.where(last, classes.at_target[owner], classes.total[owner])
        count = np.where(first, classes.at_source[owner], inner)
        shares = shares._replace(share=shares.share * count)
    rates = np.maximum(max_min_rates(shares, problem.capacity_bytes_per_s), STALLED_BYTES_PER_S)
    duration_s = float((problem.size_bytes / rates + problem.latency_s).max())
    return ExchangeTime(duration_s, flows)


def _pair_classes(network: Network, routes: Routes, item: Exchange) -> _PairClasses:
    hosts, (servers, rails) = item.hosts.reshape(-1), item.hosts.shape
    rail = np.tile(np.arange(rails), servers)
    label = _host_classes(network, routes, hosts, rail if item.same_rail else None)
    count = int(label.max()) + 1
    size = np.bincount(label, minlength=count)
    has_scale_up = bool(np.all(routes.scale_up[hosts] != NONE))
    alone = np.arange(len(hosts), dtype=np.int64)
    domain = network.server[hosts].astype(np.int64) if has_scale_up else alone
    near = _pairs_inside(label, alone if item.same_rail else domain, count)
    a, b = (axis.reshape(-1) for axis in np.indices((count, count)))
    far = size[a] * size[b] - near[a, b]  # flows over the fabric
    chosen = far > 0
    if item.same_rail:
        rail_of = np.zeros(count, dtype=np.int64)
        rail_of[label] = rail
        chosen &= rail_of[a] == rail_of[b]
    a, b, far = a[chosen], b[chosen], far[chosen]
    source, target = _representatives(hosts, label, domain, a, b)
    classes = _PairClasses(source, target, far / size[a], far / size[b], far.astype(np.float64))
    peers = rails - 1
    if not item.same_rail and peers and np.any(near.sum(axis=1) > size):
        inside = np.full(servers, float(peers))  # flows inside a server, on its scale-up links
        one, other = item.hosts[:, 0], item.hosts[:, 1]
        extra = _PairClasses(one, other, inside, inside, inside)
        pairs = zip(classes, extra, strict=True)
        classes = _PairClasses(*(np.append(column, more) for column, more in pairs))
    return classes


def _host_classes(network: Network, routes: Routes, hosts: Ints, rail: Ints | None) -> Ints:
    """A class for each host: its switches, the rates of its links, and its rail if that matters."""
    owner = np.repeat(np.arange(network.host_count), np.diff(routes.host_index))
    rate, links = network.rate_bits_per_s, routes.host_links
    up = np.bincount(owner, rate[links], minlength=network.host_count)
    down = np.bincount(owner, rate[links ^ 1], minlength=network.host_count)
    key = np.stack(
        [routes.group[hosts], up[hosts], down[hosts], rail if rail is not None else 0 * hosts],
        axis=1,
    )
    return np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)


def _pairs_inside(label: Ints, domain: Ints, count: int) -> Ints:
    """For each pair of classes, the pairs of hosts in one domain, a host with itself included."""
    order = np.argsort(domain, kind="stable")
    sizes = np.unique(domain, return_counts=True)[1]
    if len(set(sizes.tolist())) != 1:
        raise InputError.one(
            "all-to-all",
            "servers with different numbers of hosts",
            "use the same number of hosts in every server",
        )
    pairs = np.zeros((count, count), dtype=np.int64)
    rows = label[order].reshape(-1, sizes[0])
    for one in range(sizes[0]):
        for other in range(sizes[0]):
            np.add.at(pairs, (rows[:, one], rows[:, other]), 1)
    return pairs


def _representatives(hosts: Ints, label: Ints, domain: Ints, a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Two hosts for each pair of classes, in different domains."""
    order = np.argsort(label, kind="stable")
    begin = np.searchsorted(label[order], np.arange(label.max() + 2))
    source = order[begin[a]]
    target = order[begin[b]]
    for pair in np.flatnonzero(domain[source] == domain[target]):
        members = order[begin[b[pair]] : begin[b[pair] + 1]]
        target[pair] = members[np.argmax(domain[members] != domain[source[pair]])]
    return hosts[source], hosts[target]
