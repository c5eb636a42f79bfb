"""Replay Chakra traces of all ranks as traffic.

The n-th collective of a process group on one rank is the n-th on its others; so are sends and
receives of a pair and a tag. A rank begins a collective when what it waits for is done; nothing but
the trace's own waits orders it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuyard.errors import InputError, Problem
from gpuyard.simulate.chakra import ChakraNode
from gpuyard.simulate.replay_groups import MessageGroup, Place, message_groups
from gpuyard.simulate.traffic import FlowSet, traffic_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """What the ranks send, and the computation that no message follows."""

    rank_count: int
    collective_count: int
    traffic: FlowSet
    marker_count: int  # one-byte messages that keep a computation that overlaps with messages
    tail_s: float  # the longest computation after a rank's last message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """When something may begin: at a time, and a delay after each of some flows."""

    at_s: float = 0.0
    flows: dict[int, float] = field(default_factory=dict)

    def later(self, seconds: float) -> _Ready:
        """Return this delayed."""
        return _Ready(
            at_s=self.at_s + seconds,
            flows={flow: wait + seconds for flow, wait in self.flows.items()},
        )

    def joined(self, other: _Ready) -> _Ready:
        flows = dict(self.flows)
        for flow, wait in other.flows.items():
            flows[flow] = max(wait, flows.get(flow, 0.0))
        return _Ready(at_s=max(self.at_s, other.at_s), flows=flows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Flows:
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    waits: list[tuple[int, ...]] = field(default_factory=list)

    def add(
        self, source: int, target: int, size: int, start_s: float, waits: tuple[int, ...]
    ) -> None:
        self.sources.append(source)
        self.targets.append(target)
        self.sizes.append(size)
        self.starts.append(start_s)
        self.waits.append(waits)


def replay(ranks: Sequence[Sequence[ChakraNode]], file: str = "trace") -> Replay:
    """Return the traffic of the traces of all ranks.

    Raises:
        InputError: everything that does not fit together.
    """
    problems: list[Problem] = []
    groups = message_groups(ranks, file, problems)
    if not groups and not problems:
        problems.append(
            Problem(where=file, what="nothing is sent", fix="give a trace with collectives")
        )
    if problems:
        raise InputError(problems)
    ends = _ends(groups)
    ready: dict[Place, _Ready] = {}
    tail_s = 0.0
    for rank, nodes in enumerate(ranks):
        begin, rest_s = _ready(rank, nodes, ends, file)
        ready |= begin
        tail_s = max(tail_s, rest_s)
    traffic, markers = _traffic(groups, ready, len(ranks))
    return Replay(
        rank_count=len(ranks),
        collective_count=len(groups),
        traffic=traffic,
        marker_count=markers,
        tail_s=tail_s,
    )


def _ends(groups: Sequence[MessageGroup]) -> dict[Place, tuple[tuple[int, ...], bool]]:
    """The flows that complete a node on each rank, and whether its own waits remain."""
    ends: dict[Place, tuple[tuple[int, ...], bool]] = {}
    for group in groups:
        messages = group.messages
        last = np.ones(messages.flow_count, dtype=np.bool_)
        last[messages.after] = False  # something else in the collective waits for it
        for rank, node in group.places:
            mine = last & ((messages.target == rank) | (messages.source == rank))
            ends[rank, node] = tuple((group.first + np.flatnonzero(mine)).tolist()), group.keeps
    return ends


def _ready(
    rank: int,
    nodes: Sequence[ChakraNode],
    ends: dict[Place, tuple[tuple[int, ...], bool]],
    file: str,
) -> tuple[dict[Place, _Ready], float]:
    """When each communication of a rank may begin, and how long it computes after its last."""
    begin: dict[Place, _Ready] = {}
    done: dict[int, _Ready] = {}
    for node in _in_order(rank, nodes, file):
        start = _Ready()
        for before in node.after:
            start = start.joined(done[before])
        done[node.id] = start.later(node.duration_s)
        if (rank, node.id) in ends:
            begin[rank, node.id] = start
            flows, keeps = ends[rank, node.id]
            own = _Ready(flows=dict.fromkeys(flows, 0.0))
            done[node.id] = start.joined(own) if keeps else own
    followed = {before for node in nodes for before in node.after}
    rests = [
        max(when.flows.values(), default=0.0)
        for number, when in done.items()
        if number not in followed
    ]
    return begin, max(rests, default=0.0)


def _in_order(rank: int, nodes: Sequence[ChakraNode], file: str) -> list[ChakraNode]:
    """The nodes, each after those that it waits for."""
    by_id = {node.id: node for node in nodes}
    where = f"{file}: rank {rank}"
    if lost := sorted({before for node in nodes for before in node.after} - by_id.keys()):
        raise InputError.one(
            where, f"a node waits for node {lost[0]}, which is not there", "give the whole trace"
        )
    waits = {node.id: len(node.after) for node in nodes}
    followers: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        for before in node.after:
            followers[before].append(node.id)
    ordered = [node.id for node in nodes if not node.after]
    for number in ordered:  # grows as it is read
        for follower in followers[number]:
            waits[follower] -= 1
            if not waits[follower]:
                ordered.append(follower)
    if len(ordered) < len(by_id):
        stuck = next(number for number, count in waits.items() if count)
        raise InputError.one(
            where, f"node {stuck} is part of a dependency cycle", "remove the cycle"
        )
    return [by_id[number] for number in ordered]


def _traffic(
    groups: Sequence[MessageGroup], ready: dict[Place, _Ready], ranks: int
) -> tuple[FlowSet, int]:
    """All messages with what they wait for in their collective and rank; number of markers."""
    flows, markers = _Flows(), _Flows()
    total = sum(group.messages.flow_count for group in groups)
    for group in groups:
        begin = {rank: ready[rank, node] for rank, node in group.places}
        messages = group.messages
        own: dict[
            int, int
        ] = {}  # the message that a rank sent before, which waited for what the rank waits for
        begun: dict[
            int, tuple[float, list[int]]
        ] = {}  # of messages that wait for no other of the collective
        for number in range(messages.flow_count):
            source, target = int(messages.source[number]), int(messages.target[number])
            inner = messages.after[
                messages.after_index[number] : messages.after_index[number + 1]
            ].tolist()
            waits = [group.first + place for place in inner]
            start_s = 0.0
            if source in own and waits:
                waits.append(own[source])
            elif source in begun:
                start_s, waits = begun[source]
            else:
                fresh = not waits
                start_s = _begun(
                    begin[source], waits, markers, total, (source, (source + 1) % ranks)
                )
                if fresh:
                    begun[source] = start_s, waits
            own[source] = group.first + number
            flows.add(
                source,
                target,
                int(messages.size_bytes[number]),
                start_s,
                tuple(dict.fromkeys(waits)),
            )
    traffic = traffic_of(
        flows.sources + markers.sources,
        flows.targets + markers.targets,
        flows.sizes + markers.sizes,
        start_s=flows.starts + markers.starts,
        after=tuple(flows.waits + markers.waits),
    )
    return traffic, len(markers.sources)


def _begun(
    ready: _Ready, waits: list[int], markers: _Flows, total: int, ends: tuple[int, int]
) -> float:
    """The delay of a message; adds to `waits`, with a marker for each different delay."""
    delays = {*ready.flows.values(), *([0.0] if waits else [])}
    at_s = (
        ready.at_s if ready.at_s > max(delays, default=0.0) else 0.0
    )  # otherwise flows and delays say more
    if len(delays) + (at_s > 0.0) <= 1:
        waits += ready.flows
        return delays.pop() if delays else at_s
    by_delay: dict[float, list[int]] = defaultdict(list)
    for flow, delay in ready.flows.items():
        by_delay[delay].append(flow)
    if at_s > 0.0:
        by_delay[at_s] = []  # counted from the beginning
    for delay, flows in by_delay.items():
        if delay == 0.0:
            waits += flows
            continue
        markers.add(*ends, 1, delay, tuple(flows))
        waits.append(total + len(markers.sources) - 1)
    return 0.0
