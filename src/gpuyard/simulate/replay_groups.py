"""Collectives and send-receive pairs of Chakra traces, matched over the ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.errors import Problem
from gpuyard.simulate.chakra import ChakraNode
from gpuyard.simulate.collectives.bus import whole_bytes
from gpuyard.simulate.collectives.compile import Name
from gpuyard.simulate.collectives.exchange import all_to_all, send
from gpuyard.simulate.collectives.ring import chain_broadcast, ring, rotated_orders
from gpuyard.simulate.collectives.schedule import Schedule, to_traffic
from gpuyard.simulate.traffic import FlowSet

COLLECTIVES: dict[int, Name] = {  # of CollectiveCommType
    0: "all-reduce",
    2: "all-gather",
    5: "broadcast",
    6: "all-to-all",
    7: "reduce-scatter",
    8: "reduce-scatter",
    9: "all-reduce",
}
BARRIER, BARRIER_BYTES = 9, 4  # NCCL's is an all-reduce of one number
MOST_MESSAGES = 20_000_000
Place = tuple[int, int]  # rank, node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageGroup:
    """A collective, or a send with its receive: the node of each rank, and the messages."""

    places: tuple[Place, ...]
    messages: FlowSet
    first: int
    keeps: bool  # a rank may be through before it has sent or received, so its own waits stay


def message_groups(
    ranks: Sequence[Sequence[ChakraNode]], file: str, problems: list[Problem]
) -> list[MessageGroup]:
    """Which nodes belong together, and the messages that they are."""
    calls: dict[str, dict[int, list[ChakraNode]]] = defaultdict(lambda: defaultdict(list))
    pairs: dict[tuple[int, int, int], tuple[list[ChakraNode], list[ChakraNode]]] = defaultdict(
        lambda: ([], [])
    )
    for rank, nodes in enumerate(ranks):
        for node in nodes:
            if node.kind == "collective":
                calls[node.group][rank].append(node)
            elif node.kind == "send":
                pairs[rank, node.peer, node.tag][0].append(node)
            elif node.kind == "receive":
                pairs[node.peer, rank, node.tag][1].append(node)
    groups: list[MessageGroup] = []
    for name, by_rank in calls.items():
        groups += _calls(name, by_rank, file, problems)
    for pair, (sent, received) in sorted(pairs.items()):
        groups += _pairs(pair, sent, received, len(ranks), file, problems)
    count = sum(group.messages.flow_count for group in groups)
    if count > MOST_MESSAGES:
        problems.append(
            Problem(
                where=file, what=f"{count:,} messages", fix="give a trace of fewer ranks or steps"
            )
        )
    first = np.cumsum([0, *(group.messages.flow_count for group in groups)])
    return [replace(group, first=int(first[place])) for place, group in enumerate(groups)]


def _calls(
    name: str, by_rank: dict[int, list[ChakraNode]], file: str, problems: list[Problem]
) -> list[MessageGroup]:
    members = sorted(by_rank)
    where = f'{file}: group "{name}"'
    counts = {len(nodes) for nodes in by_rank.values()}
    if len(counts) > 1 or len(members) < 2:
        what = (
            "ranks with different numbers of collectives"
            if len(counts) > 1
            else f"only rank {members[0]} in it"
        )
        problems.append(
            Problem(
                where=where, what=what, fix="give the traces of all its ranks, of the same steps"
            )
        )
        return []
    groups = []
    for order in range(counts.pop()):
        nodes = [by_rank[rank][order] for rank in members]
        first = nodes[0]
        collective = COLLECTIVES.get(first.collective)
        wrong = (
            (
                collective is None,
                f"collective type {first.collective}",
                "REDUCE, GATHER and SCATTER are not read",
            ),
            (
                len({(node.collective, node.size_bytes) for node in nodes}) > 1,
                "ranks differ in it",
                "order them alike",
            ),
            (
                not first.every_dimension,
                "some dimensions of a topology",
                "name the ranks by a process group, pg_name",
            ),
        )
        mistakes = [
            Problem(where=f"{where}: {first.name}", what=what, fix=fix)
            for bad, what, fix in wrong
            if bad
        ]
        problems += mistakes
        if collective and not mistakes:
            places = tuple((rank, node.id) for rank, node in zip(members, nodes, strict=True))
            groups.append(_group(collective, first, members, places))
    return groups


def _group(
    collective: Name, node: ChakraNode, members: list[int], places: tuple[Place, ...]
) -> MessageGroup:
    """A collective as messages: ring, chain for a broadcast, all pairs for an all-to-all."""
    n = len(members)
    size = float(BARRIER_BYTES if node.collective == BARRIER else node.size_bytes)
    if collective == "all-gather":  # a node has the input of one rank
        size *= n
    schedule: Schedule
    if collective == "all-to-all":
        schedule = all_to_all(n)
    elif collective == "broadcast":
        schedule = chain_broadcast(np.arange(n))
    else:
        assert collective in (
            "all-reduce",
            "all-gather",
            "reduce-scatter",
        ), "the table holds no other"
        schedule = ring(collective, rotated_orders(np.arange(n)))
    messages = to_traffic(schedule, whole_bytes(collective, size, n), np.array(members))
    return MessageGroup(places=places, messages=messages, first=0, keeps=collective == "broadcast")


def _pairs(
    pair: tuple[int, int, int],
    sent: list[ChakraNode],
    received: list[ChakraNode],
    ranks: int,
    file: str,
    problems: list[Problem],
) -> list[MessageGroup]:
    source, target, tag = pair
    where = f"{file}: rank {source} to rank {target}, tag {tag}"
    if not (0 <= source < ranks and 0 <= target < ranks) or source == target:
        problems.append(
            Problem(
                where=where,
                what=f"no such pair of {ranks} ranks",
                fix="give the traces of all ranks",
            )
        )
        return []
    if len(sent) != len(received):
        what = f"{len(sent)} sends and {len(received)} receives"
        problems.append(Problem(where=where, what=what, fix="give the traces of the same steps"))
        return []
    hosts = np.array([source, target])
    return [
        MessageGroup(
            places=((source, one.id), (target, other.id)),
            messages=to_traffic(send(0, 1, 2), float(one.size_bytes), hosts),
            first=0,
            keeps=True,
        )
        for one, other in zip(sent, received, strict=True)
    ]
