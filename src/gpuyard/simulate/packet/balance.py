"""Which of the equal-cost links a packet takes: by its flow's hash, sprayed, to the shortest queue, or by flowlet."""

from __future__ import annotations

import numpy as np

from gpuyard.compiled import compiled
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.state import (
    ACK,
    NONE,
    choices,
    events,
    flowlets,
    flows,
    groups,
    host_index,
    host_links,
    lines,
    salts,
    scale_ups,
    set_index,
    set_links,
)
from gpuyard.simulate.route_tables import LAST
from gpuyard.simulate.routes import hash32

__all__ = ["ADAPTIVE", "BY_FLOWLET", "FIXED", "HASHED", "SPRAY", "draw", "onward_link"]

FIXED = 0  # the flow's path is known from the start
HASHED = 1  # the same choice, made at every switch, so that routes can change
SPRAY = 2
ADAPTIVE = 3
BY_FLOWLET = 4


@compiled
def draw(s: Row, flow: int, seq: int, place: int) -> int:
    """A 32-bit number that depends on the seed, the packet and the place alone."""
    what = (np.uint64(flow) << np.uint64(32)) | np.uint64(seq)
    salt = s.seed ^ (hash32(np.uint64(place), s.seed) << np.uint64(31))
    return np.int64(hash32(what, salt))  # type: ignore[return-value]  # signed, for what is worked out with it


@compiled
def onward_link(s: Row, row: int, node: int) -> int:
    """The link on which a packet leaves a switch; -1 if there is no way."""
    event = events(s, row)
    flow = flows(s, event.flow)
    backwards = event.kind >= ACK
    target = flow.source if backwards else flow.target
    group = groups(s, target).row
    up = scale_ups(s, target).row
    if up != NONE and lines(s, up).to == node:
        return int(up ^ 1)
    if group == NONE:
        return NONE
    chosen = choices(s, (node - s.host_count) * s.group_count + group).row
    if chosen == LAST:
        return _beside(s, node, target)
    if chosen == NONE:
        return NONE
    first = set_index(s, chosen).row
    count = set_index(s, chosen + 1).row - first
    mode = s.balance
    if count == 1:
        return int(set_links(s, first).row)
    if mode == HASHED or backwards:
        tuple_hash = flow.back_hash if backwards else flow.hash
        return int(set_links(s, first + np.int64(hash32(tuple_hash, salts(s, node).value) % np.uint64(count))).row)
    number = draw(s, event.flow, event.seq, node)
    if mode == SPRAY:
        return int(set_links(s, first + number % count).row)
    if mode == ADAPTIVE:
        return _shortest(s, first, count, number)
    return _flowlet(s, event.flow, node, first, count, number)


@compiled
def _beside(s: Row, node: int, target: int) -> int:
    """The link to a host beside the switch."""
    for place in range(host_index(s, target).row, host_index(s, target + 1).row):
        back = host_links(s, place).row ^ 1
        if lines(s, host_links(s, place).row).to == node:
            return int(back)
    return NONE


@compiled
def _shortest(s: Row, first: int, count: int, number: int) -> int:
    """The link with the shortest queue that is not paused; among equals, from a drawn one on."""
    best, least = NONE, np.int64(2**62)
    now = s.now
    for step in range(count):
        link = set_links(s, first + (number + step) % count).row
        line = lines(s, link)
        length = np.int64(line.queued) + (line.free_at > now) + (np.int64(1) << 40) * line.paused
        if length < least:
            best, least = link, length
    return int(best)


@compiled
def _flowlet(s: Row, flow: int, node: int, first: int, count: int, number: int) -> int:
    """The link of the flow's last packet here, or after a long enough pause the one with the shortest queue."""
    cell = flowlets(s, draw(s, flow, node, 0) % s.flowlet_count)
    now = s.now
    link = cell.link
    fresh = now - cell.seen <= s.flowlet_gap
    member = False
    for step in range(count):
        member = member or set_links(s, first + step).row == link
    if not (fresh and member):  # an entry may belong to another flow, as in a switch's table
        link = _shortest(s, first, count, number)
        cell.link = link
    cell.seen = now
    return int(link)
