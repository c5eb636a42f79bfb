"""Two-level collectives: NVLink inside servers, rails between them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpuyard.simulate.collectives.halving import halving_doubling
from gpuyard.simulate.collectives.ring import Part, ring, rotated_orders
from gpuyard.simulate.collectives.schedule import (
    Ints,
    Schedule,
    embedded,
    in_parallel,
    in_sequence,
    no_waits,
    pipelined,
)
from gpuyard.simulate.collectives.tree import double_tree

Between = Literal["ring", "tree", "halving"]


def hierarchical(
    part: Part,
    servers: int,
    rails: int,
    between: Between = "ring",
    times: int = 1,
    channels: int = 1,
) -> Schedule:
    """Over rank = server x rails + rail: each rail carries its share of the data between servers.

    All-reduce: reduce-scatter inside, all-reduce along each rail, all-gather inside. Piece order
    follows the rail first, so a reduce-scatter leaves rank s x rails + r with piece r x servers +
    s.
    """
    outer = _between(part, servers, between, channels)
    cut = outer.piece_count
    whole = rails * cut
    rail_wise = in_parallel(
        [
            embedded(outer, np.arange(servers) * rails + rail, rail * cut, whole)
            for rail in range(rails)
        ],
        share_pieces=True,
    )
    if rails == 1:
        return pipelined(rail_wise, times)
    stages = [rail_wise]
    if part != "all-gather":
        stages.insert(0, _inside(direct("reduce-scatter", rails), servers, rails, cut))
    if part != "reduce-scatter":
        stages.append(_inside(direct("all-gather", rails), servers, rails, cut))
    schedule = stages[0]
    for stage in stages[1:]:
        schedule = in_sequence(schedule, stage)
    return pipelined(schedule, times)


def _between(part: Part, servers: int, between: Between, channels: int) -> Schedule:
    if between == "tree" and part == "all-reduce":
        return double_tree(np.arange(servers), channels=channels)
    if between == "halving":
        return halving_doubling(part, np.arange(servers))
    return ring(part, rotated_orders(np.arange(servers), channels))


def _inside(schedule: Schedule, servers: int, rails: int, cut: int) -> Schedule:
    return in_parallel(
        [
            embedded(schedule, server * rails + np.arange(rails), 0, rails * cut, scale=cut)
            for server in range(servers)
        ],
        share_pieces=True,
    )


def direct(part: Literal["reduce-scatter", "all-gather"], n: int) -> Schedule:
    """One step over a switch: every rank exchanges a piece with every other at once."""
    shift, source = (axis.ravel() for axis in np.indices((n - 1, n)))
    target = (source + shift + 1) % n
    index, after = no_waits(len(source))
    one = np.ones(len(source), dtype=np.int64)
    return Schedule(
        rank_count=n,
        piece_count=n,
        source=source,
        target=target,
        first_piece=target if part == "reduce-scatter" else source,
        pieces=one,
        piece_stride=one,
        reduces=np.full(len(source), part == "reduce-scatter", dtype=np.bool_),
        after_index=index,
        after=after,
        channel=0 * one,
    )


def nvls(ranks: Ints, part: Part, times: int = 1) -> Schedule:
    """Return an NVLink SHARP collective as load on the links.

    A message between hosts cannot say that the switch adds or copies. What can be said is the load
    of each link: of n ranks, each sends the whole once and receives its nth part of the sum, or the
    other way round; an all-reduce does both at once, (n + 1) / n of the whole on each link and
    direction. A ring of single messages loads them so.
    """
    n = len(ranks)
    index, after = no_waits(n)
    one = np.ones(n, dtype=np.int64)
    order = np.asarray(ranks, dtype=np.int64)
    load = Schedule(
        rank_count=n,
        piece_count=n,
        source=order,
        target=np.roll(order, -1),
        first_piece=0 * one,
        pieces=one * (n + 1 if part == "all-reduce" else n),
        piece_stride=one,
        reduces=np.zeros(n, dtype=np.bool_),
        after_index=index,
        after=after,
        channel=0 * one,
    )
    return pipelined(load, times)


def nvls_rails(servers: int, rails: int, between: Between = "tree", times: int = 1) -> Schedule:
    """All-reduce summed by each NVLink switch, along the rails, and copied by the switches."""
    return _switched_inside(_between("all-reduce", servers, between, 1), servers, rails, times)


def sharp_rails(servers: int, rails: int, times: int = 1) -> Schedule:
    """All-reduce summed by NVLink switches, and along the rails by InfiniBand switches (SHARP).

    A NIC sends its share of the data once and receives the sum once, whatever the number of
    servers. As with NVLink SHARP, a ring of single messages loads the NICs so; a link between
    switches carries what leaves or enters the servers below it, once per rail.
    """
    return _switched_inside(nvls(np.arange(servers), "reduce-scatter"), servers, rails, times)


def _switched_inside(outer: Schedule, servers: int, rails: int, times: int) -> Schedule:
    # NVLink switches sum inside the servers, `outer` runs on every rail, the switches copy.
    cut = outer.piece_count
    whole = rails * cut
    rail_wise = in_parallel(
        [
            embedded(outer, np.arange(servers) * rails + rail, rail * cut, whole)
            for rail in range(rails)
        ],
        share_pieces=True,
    )
    load = nvls(np.arange(rails), "reduce-scatter")
    inside = in_parallel(
        [
            embedded(load, server * rails + np.arange(rails), 0, whole, scale=cut)
            for server in range(servers)
        ],
        share_pieces=True,
    )
    return pipelined(in_sequence(in_sequence(inside, rail_wise), inside), times)
