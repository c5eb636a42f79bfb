"""Load balancing over ECMP links: flow hash, spraying, shortest queue, flowlets.

Random choices are hashes of the seed, the packet and the switch, never a sequence: they do not
depend on the order of events, so a change in one flow does not change the draws of another.

Source of flowlets: Vanini et al., "Let It Flow" (NSDI 2017).
"""

from __future__ import annotations

import numpy as np

from gpuyard.jit import jit
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
    ports,
    salts,
    scale_ups,
    set_index,
    set_links,
)
from gpuyard.simulate.route_tables import LAST
from gpuyard.simulate.routes import hash32

FIXED = 0  # hash of the flow, path computed before the run
HASHED = 1  # the same hash at every switch, so that routes can change
SPRAY = 2
ADAPTIVE = 3
BY_FLOWLET = 4


@jit
def draw(s: Row, flow: int, seq: int, place: int) -> int:
    """Return 32 random bits that depend on the seed, the packet and the place alone."""
    packet = (np.uint64(flow) << np.uint64(32)) | np.uint64(seq)
    salt = s.seed ^ (hash32(np.uint64(place), s.seed) << np.uint64(31))
    return np.int64(hash32(packet, salt))  # type: ignore[return-value]


@jit
def next_hop(s: Row, row: int, node: int) -> int:
    """Return the link on which a packet leaves a switch, NONE without a route."""
    event = events(s, row)
    flow = flows(s, event.flow)
    backwards = event.kind >= ACK
    target = flow.source if backwards else flow.target
    group = groups(s, target).row
    up = scale_ups(s, target).row
    if up != NONE and ports(s, up).to == node:
        return int(up ^ 1)
    if group == NONE:
        return NONE
    chosen = choices(s, (node - s.host_count) * s.group_count + group).row
    if chosen == LAST:
        return _link_to_host(s, node, target)
    if chosen == NONE:
        return NONE
    first = set_index(s, chosen).row
    count = set_index(s, chosen + 1).row - first
    mode = s.balance
    if count == 1:
        return int(set_links(s, first).row)
    if mode == HASHED or backwards:
        tuple_hash = flow.back_hash if backwards else flow.hash
        choice = np.int64(hash32(tuple_hash, salts(s, node).value) % np.uint64(count))
        return int(set_links(s, first + choice).row)
    number = draw(s, event.flow, event.seq, node)
    if mode == SPRAY:
        return int(set_links(s, first + number % count).row)
    if mode == ADAPTIVE:
        return _shortest(s, first, count, number)
    return _flowlet(s, event.flow, node, first, count, number)


@jit
def _link_to_host(s: Row, node: int, target: int) -> int:
    for place in range(host_index(s, target).row, host_index(s, target + 1).row):
        back = host_links(s, place).row ^ 1
        if ports(s, host_links(s, place).row).to == node:
            return int(back)
    return NONE


@jit
def _shortest(s: Row, first: int, count: int, number: int) -> int:
    # Paused links come last; ties go to the first link after a random one.
    best, least = NONE, np.int64(2**62)
    now = s.now
    for step in range(count):
        link = set_links(s, first + (number + step) % count).row
        port = ports(s, link)
        length = np.int64(port.queued) + (port.free_at > now) + (np.int64(1) << 40) * port.paused
        if length < least:
            best, least = link, length
    return int(best)


@jit
def _flowlet(s: Row, flow: int, node: int, first: int, count: int, number: int) -> int:
    # The link of the flow's last packet, or after a gap the one with the shortest queue.
    cell = flowlets(s, draw(s, flow, node, 0) % s.flowlet_count)
    now = s.now
    link = cell.link
    fresh = now - cell.seen <= s.flowlet_gap
    member = False
    for step in range(count):
        member = member or set_links(s, first + step).row == link
    if not (fresh and member):  # flows that collide share an entry, as in a switch
        link = _shortest(s, first, count, number)
        cell.link = link
    cell.seen = now
    return int(link)
