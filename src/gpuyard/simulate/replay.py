"""Chakra traces of all ranks as traffic: collectives become messages, computation the time before them.

The n-th collective of a process group on one rank is the n-th on its others; so are sends and receives of a pair and
a tag. A rank begins a collective when what it waits for is done; nothing but the trace's own waits orders it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpuyard.errors import InputError, Problem
from gpuyard.simulate.chakra import ChakraNode
from gpuyard.simulate.collectives.bus import whole_bytes
from gpuyard.simulate.collectives.compile import Name
from gpuyard.simulate.collectives.exchange import all_to_all, send
from gpuyard.simulate.collectives.ring import chain_broadcast, ring, rotated_orders
from gpuyard.simulate.collectives.schedule import Schedule, to_traffic
from gpuyard.simulate.traffic import Traffic, traffic_of

__all__ = ["Replay", "replay"]

COLLECTIVES: dict[int, Name] = {  # of CollectiveCommType
    0: "all-reduce", 2: "all-gather", 5: "broadcast", 6: "all-to-all", 7: "reduce-scatter", 8: "reduce-scatter",
    9: "all-reduce",
}  # fmt: skip
BARRIER, BARRIER_BYTES = 9, 4  # NCCL's is an all-reduce of one number
MOST_MESSAGES = 20_000_000
Place = tuple[int, int]  # rank, node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """What the ranks send, and the computation that no message follows."""

    rank_count: int
    collective_count: int
    traffic: Traffic
    marker_count: int  # one-byte messages that keep a computation which ends beside messages
    tail_s: float  # the longest computation after a rank's last message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """When something may begin: at a time, and so long after each of some flows."""

    at_s: float = 0.0
    flows: dict[int, float] = field(default_factory=dict)

    def later(self, seconds: float) -> _Ready:
        """So much later."""
        return _Ready(at_s=self.at_s + seconds, flows={flow: wait + seconds for flow, wait in self.flows.items()})

    def joined(self, other: _Ready) -> _Ready:
        """When both are."""
        flows = dict(self.flows)
        for flow, wait in other.flows.items():
            flows[flow] = max(wait, flows.get(flow, 0.0))
        return _Ready(at_s=max(self.at_s, other.at_s), flows=flows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Group:
    """A collective, or a send with its receive: the node of every rank, its messages, and the first one's number."""

    places: tuple[Place, ...]
    messages: Traffic
    first: int
    keeps: bool  # a rank may be through before it has sent or received, so its own waits stay


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Flows:
    """The flows as they are made."""

    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    waits: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, source: int, target: int, size: int, start_s: float, waits: tuple[int, ...]) -> None:
        """One more."""
        self.sources.append(source)
        self.targets.append(target)
        self.sizes.append(size)
        self.starts.append(start_s)
        self.waits.append(waits)


def replay(ranks: Sequence[Sequence[ChakraNode]], file: str = "trace") -> Replay:
    """The traffic of the ranks' traces; InputError with everything that does not fit together."""
    problems: list[Problem] = []
    groups = _groups(ranks, file, problems)
    if not groups and not problems:
        problems.append(Problem(where=file, what="nothing is sent", fix="give a trace with collectives"))
    if problems:
        raise InputError(problems)
    ends = _ends(groups)
    ready: dict[Place, _Ready] = {}
    tail_s = 0.0
    for rank, nodes in enumerate(ranks):
        found, rest_s = _ready(rank, nodes, ends, file)
        ready |= found
        tail_s = max(tail_s, rest_s)
    traffic, markers = _traffic(groups, ready, len(ranks))
    return Replay(
        rank_count=len(ranks), collective_count=len(groups), traffic=traffic, marker_count=markers, tail_s=tail_s
    )


def _groups(ranks: Sequence[Sequence[ChakraNode]], file: str, problems: list[Problem]) -> list[_Group]:
    """Which nodes belong together, and the messages that they are."""
    calls: dict[str, dict[int, list[ChakraNode]]] = defaultdict(lambda: defaultdict(list))
    pairs: dict[tuple[int, int, int], tuple[list[ChakraNode], list[ChakraNode]]] = defaultdict(lambda: ([], []))
    for rank, nodes in enumerate(ranks):
        for node in nodes:
            if node.kind == "collective":
                calls[node.group][rank].append(node)
            elif node.kind == "send":
                pairs[rank, node.peer, node.tag][0].append(node)
            elif node.kind == "receive":
                pairs[node.peer, rank, node.tag][1].append(node)
    made: list[_Group] = []
    for name, by_rank in calls.items():
        made += _calls(name, by_rank, file, problems)
    for pair, (sent, received) in sorted(pairs.items()):
        made += _pairs(pair, sent, received, len(ranks), file, problems)
    count = sum(group.messages.flow_count for group in made)
    if count > MOST_MESSAGES:
        problems.append(Problem(where=file, what=f"{count:,} messages", fix="give a trace of fewer ranks or steps"))
    first = np.cumsum([0, *(group.messages.flow_count for group in made)])
    return [replace(group, first=int(first[place])) for place, group in enumerate(made)]


def _calls(name: str, by_rank: dict[int, list[ChakraNode]], file: str, problems: list[Problem]) -> list[_Group]:
    """The collectives of a process group."""
    members = sorted(by_rank)
    where = f'{file}: group "{name}"'
    counts = {len(nodes) for nodes in by_rank.values()}
    if len(counts) > 1 or len(members) < 2:
        what = "ranks with different numbers of collectives" if len(counts) > 1 else f"only rank {members[0]} in it"
        problems.append(Problem(where=where, what=what, fix="give the traces of all its ranks, of the same steps"))
        return []
    made = []
    for order in range(counts.pop()):
        nodes = [by_rank[rank][order] for rank in members]
        first = nodes[0]
        collective = COLLECTIVES.get(first.collective)
        wrong = (
            (collective is None, f"collective type {first.collective}", "REDUCE, GATHER and SCATTER are not read"),
            (len({(node.collective, node.size_bytes) for node in nodes}) > 1, "ranks differ in it", "order them alike"),
            (not first.every_dimension, "some dimensions of a topology", "name the ranks by a process group, pg_name"),
        )
        found = [Problem(where=f"{where}: {first.name}", what=what, fix=fix) for bad, what, fix in wrong if bad]
        problems += found
        if collective and not found:
            places = tuple((rank, node.id) for rank, node in zip(members, nodes, strict=True))
            made.append(_group(collective, first, members, places))
    return made


def _group(collective: Name, node: ChakraNode, members: list[int], places: tuple[Place, ...]) -> _Group:
    """A collective as messages: rings, a chain for a broadcast, all pairs at once for an all-to-all."""
    n = len(members)
    size = float(BARRIER_BYTES if node.collective == BARRIER else node.size_bytes)
    if collective == "all-gather":  # a node tells the input of a rank
        size *= n
    schedule: Schedule
    if collective == "all-to-all":
        schedule = all_to_all(n)
    elif collective == "broadcast":
        schedule = chain_broadcast(np.arange(n))
    else:
        assert collective in ("all-reduce", "all-gather", "reduce-scatter"), "the table holds no other"
        schedule = ring(collective, rotated_orders(np.arange(n)))
    messages = to_traffic(schedule, whole_bytes(collective, size, n), np.array(members))
    return _Group(places=places, messages=messages, first=0, keeps=collective == "broadcast")


def _pairs(
    pair: tuple[int, int, int], sent: list[ChakraNode], received: list[ChakraNode], ranks: int, file: str,
    problems: list[Problem],
) -> list[_Group]:  # fmt: skip
    """Sends with their receives."""
    source, target, tag = pair
    where = f"{file}: rank {source} to rank {target}, tag {tag}"
    if not (0 <= source < ranks and 0 <= target < ranks) or source == target:
        problems.append(Problem(where=where, what=f"no such pair of {ranks} ranks", fix="give the traces of all ranks"))
        return []
    if len(sent) != len(received):
        what = f"{len(sent)} sends and {len(received)} receives"
        problems.append(Problem(where=where, what=what, fix="give the traces of the same steps"))
        return []
    hosts = np.array([source, target])
    return [
        _Group(
            places=((source, one.id), (target, other.id)),
            messages=to_traffic(send(0, 1, 2), float(one.size_bytes), hosts),
            first=0,
            keeps=True,
        )
        for one, other in zip(sent, received, strict=True)
    ]


def _ends(groups: Sequence[_Group]) -> dict[Place, tuple[tuple[int, ...], bool]]:
    """The flows with which each rank is through a node, and whether its own waits stay beside them."""
    found: dict[Place, tuple[tuple[int, ...], bool]] = {}
    for group in groups:
        messages = group.messages
        last = np.ones(messages.flow_count, dtype=np.bool_)
        last[messages.after] = False  # something else in the collective waits for it
        for rank, node in group.places:
            mine = last & ((messages.target == rank) | (messages.source == rank))
            found[rank, node] = tuple((group.first + np.flatnonzero(mine)).tolist()), group.keeps
    return found


def _ready(
    rank: int, nodes: Sequence[ChakraNode], ends: dict[Place, tuple[tuple[int, ...], bool]], file: str
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
    rests = [max(when.flows.values(), default=0.0) for number, when in done.items() if number not in followed]
    return begin, max(rests, default=0.0)


def _in_order(rank: int, nodes: Sequence[ChakraNode], file: str) -> list[ChakraNode]:
    """The nodes, each after those that it waits for."""
    by_id = {node.id: node for node in nodes}
    where = f"{file}: rank {rank}"
    if lost := sorted({before for node in nodes for before in node.after} - by_id.keys()):
        raise InputError.one(where, f"a node waits for node {lost[0]}, which is not there", "give the whole trace")
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
        raise InputError.one(where, f"node {stuck} waits for itself in a circle", "mend its dependencies")
    return [by_id[number] for number in ordered]


def _traffic(groups: Sequence[_Group], ready: dict[Place, _Ready], ranks: int) -> tuple[Traffic, int]:
    """All messages, each with what it waits for in its collective and in its rank; and how many markers that took."""
    made, markers = _Flows(), _Flows()
    total = sum(group.messages.flow_count for group in groups)
    for group in groups:
        begin = {rank: ready[rank, node] for rank, node in group.places}
        messages = group.messages
        own: dict[int, int] = {}  # the message that a rank sent before, which waited for what the rank waits for
        begun: dict[int, tuple[float, list[int]]] = {}  # of messages that wait for no other of the collective
        for number in range(messages.flow_count):
            source, target = int(messages.source[number]), int(messages.target[number])
            inner = messages.after[messages.after_index[number] : messages.after_index[number + 1]].tolist()
            waits = [group.first + each for each in inner]
            start_s = 0.0
            if source in own and waits:
                waits.append(own[source])
            elif source in begun:
                start_s, waits = begun[source]
            else:
                fresh = not waits
                start_s = _begun(begin[source], waits, markers, total, (source, (source + 1) % ranks))
                if fresh:
                    begun[source] = start_s, waits
            own[source] = group.first + number
            made.add(source, target, int(messages.size_bytes[number]), start_s, tuple(dict.fromkeys(waits)))
    traffic = traffic_of(
        made.sources + markers.sources, made.targets + markers.targets, made.sizes + markers.sizes,
        start_s=made.starts + markers.starts, after=tuple(made.waits + markers.waits),
    )  # fmt: skip
    return traffic, len(markers.sources)


def _begun(ready: _Ready, waits: list[int], markers: _Flows, total: int, ends: tuple[int, int]) -> float:
    """The delay of a message, what it waits for added to `waits`; waits of unlike delay each get a marker."""
    delays = {*ready.flows.values(), *([0.0] if waits else [])}
    at_s = ready.at_s if ready.at_s > max(delays, default=0.0) else 0.0  # otherwise flows and delays say more
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
