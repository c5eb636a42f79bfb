"""State of the packet engine: compact records, one cache line per access.

A row of `events` is a packet, a control message or a timer; it is in the calendar, in a queue or
free, never in two of them, so one `next` serves all three. The first rows belong to the links
(their transmission timers), the next to the flows (start and pacing), the rest is a pool. Times are
whole picoseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.packet.memory import prefetch, table

NONE = -1
NEVER = 2**62  # a time that does not come

# What an event is.
TX = 0  # a link may send its next packet
START = 1  # a flow starts
PACE = 2  # a flow may send again
DATA = 3  # arrives over its link; so do the next three
ACK = 4
NACK = 5
CNP = 6
PAUSE = 7  # to the sender of a link
RESUME = 8
ACKED = 9  # at a flow's source after a delay, in place of ACK, NACK and CNP
NACKED = 10
CNPED = 11
LOST = 12  # a sprayed packet has to be sent again
RTO = 13  # a flow's retransmission timer
RELEASED = 14  # all that a flow's dependents waited for is there

Array = npt.NDArray[np.void]

EVENT = np.dtype(
    [
        ("time", "i8"),
        ("next", "i4"),
        ("flow", "i4"),
        ("seq", "i4"),
        ("link", "i4"),  # being crossed; in a queue: come over; -1 at its source
        ("bytes", "i4"),
        ("kind", "i1"),
        ("hop", "i1"),  # links crossed before this one
        ("mark", "i1"),  # ECN
        ("control", "i1"),  # in the class that PFC does not pause
    ]
)

PORT = np.dtype(
    [
        # sending end, first cache line
        ("free_at", "i8"),
        ("delay", "i8"),
        ("sent", "i8"),
        ("ps_per_byte", "f4"),
        ("head", "i4"),  # data queue
        ("tail", "i4"),
        ("control_head", "i4"),  # control queue
        ("control_tail", "i4"),
        ("ring_head", "i4"),  # flows of a host that have something to send
        ("ring_tail", "i4"),
        ("queued", "i4"),  # bytes in the data queue
        ("paused", "i1"),
        ("pending", "i1"),  # its TX event is in the calendar
        ("down", "i1"),
        ("dropping", "i1"),  # the PFC watchdog drops what would go out here
        ("to_host", "i1"),
        ("from_host", "i1"),
        ("xoff", "i1"),  # the receiving end has paused the sender
        ("pauses_in_flight", "i1"),  # pause frames on their way to the sender
        # receiving end and tallies, second cache line
        (
            "in_pool",
            "i8",
        ),  # bytes that came over this link and are still in the switch, without headroom
        ("in_headroom", "i8"),  # of them, in headroom
        ("headroom", "i8"),  # headroom
        ("paused_since", "i8"),
        ("paused_ps", "i8"),
        ("to", "i4"),
        ("peak", "i4"),  # most bytes in the data queue
        ("marks", "i4"),
        ("drops", "i4"),
        ("pauses", "i4"),
        ("ingress_peak", "i4"),
    ]
)

# Tables of plain numbers.
ROW = np.dtype([("row", "i4")])
LONG = np.dtype([("value", "i8")])
SALT = np.dtype([("value", "u8")])
FLOWLET = np.dtype([("seen", "i8"), ("link", "i4"), ("spare", "i4")])

NODE = np.dtype([("used", "i8"), ("total", "i8"), ("peak", "i8"), ("limit", "i8")])

FLOW = np.dtype(
    [
        # sender
        ("packets", "i4"),
        ("next_seq", "i4"),
        ("last_bytes", "i4"),
        ("link", "i4"),
        ("next", "i4"),  # in the ring of its host
        ("acked", "i4"),
        ("window", "i4"),  # packets
        ("resend", "i4"),  # lost packets to send again
        # receiver
        ("expected", "i4"),  # next in order, or the number received where order is not kept
        ("nacked", "i4"),
        ("highest", "i4"),
        ("waits", "i4"),
        ("in_ring", "i1"),
        ("done", "i1"),
        ("pacing", "i1"),
        ("timed", "i1"),  # an RTO event is in the calendar
        ("source", "i4"),
        ("target", "i4"),
        ("back_link", "i4"),  # on which its target answers
        ("timeout_seq", "i4"),
        ("timeout_known", "i4"),  # what was known to be there at the last timeout
        ("retries", "i4"),  # timeouts since something new was known
        ("sent", "i4"),  # packets put on the wire, with those sent again
        ("late", "i4"),  # packets received out of order
        ("ack_delay", "i8"),
        ("start", "i8"),  # delay of the start
        ("began", "i8"),
        ("finish", "i8"),
        ("hash", "u8"),
        ("back_hash", "u8"),
    ]
)

REACTION = np.dtype(
    [
        ("rate", "f8"),  # bytes per ps
        ("target", "f8"),
        ("alpha", "f8"),
        ("alpha_at", "i8"),
        ("increase_at", "i8"),
        ("cut_at", "i8"),
        ("bytes", "i8"),
        ("cnp_at", "i8"),  # receiver: last CNP
        ("timer_stage", "i4"),
        ("byte_stage", "i4"),
        ("cuts", "i4"),
        ("spare", "i4"),
    ]
)

TABLES = (
    "events", "slots", "batch", "far", "ports", "nodes", "flows", "reactions", "paths",
    "back_paths", "dependent_index", "dependents", "host_lags", "salts", "groups", "choices",
    "set_index", "set_links", "host_index", "host_links", "scale_ups", "flowlets",
)  # fmt: skip

HEAD = np.dtype(
    [
        # the clock and the tallies
        ("now", "i8"),
        ("cursor", "i8"),  # slot whose events are in the batch
        ("near_count", "i8"),  # events in the slots
        ("batch_next", "i4"),
        ("batch_end", "i4"),
        ("far_count", "i4"),  # events in the heap
        ("free", "i4"),  # head of the rows that were given back
        ("fresh", "i8"),  # the first row that was never used
        ("last_fresh", "i8"),  # beyond it the rows have to grow
        ("unfinished", "i8"),  # flows that are not finished
        ("event_count", "i8"),
        ("sent", "i8"),  # data packets
        ("received", "i8"),
        ("dropped", "i8"),
        ("dropped_control", "i8"),  # of acknowledgements and notifications
        ("duplicates", "i8"),
        ("marked", "i8"),
        ("cnps", "i8"),
        ("pauses", "i8"),
        ("nacks", "i8"),
        ("timeouts", "i8"),
        # the settings
        ("shift", "i8"),
        ("mask", "i8"),
        ("payload", "i8"),
        ("header", "i8"),
        ("ack_bytes", "i8"),  # bytes of an acknowledgement
        ("host_count", "i8"),
        ("balance", "i8"),
        ("ordered", "i8"),
        ("acks", "i8"),
        ("finish_acked", "i8"),
        ("windowed", "i8"),
        ("lossless", "i8"),
        ("dynamic", "i8"),
        ("xoff", "i8"),
        ("xon_gap", "i8"),  # XOFF less XON
        ("pool", "i8"),
        ("alpha", "f8"),
        ("pause_delay", "i8"),
        ("ecn", "i8"),
        ("kmin", "f8"),
        ("kmax", "f8"),
        ("pmax", "f8"),
        ("cut_through", "i8"),
        ("flowlet_gap", "i8"),
        ("burst", "i8"),
        ("rto", "i8"),
        ("retries", "i8"),  # timeouts in a row after which a flow is given up
        ("seed", "u8"),
        ("dcqcn", "i8"),
        ("g", "f8"),
        ("alpha_timer", "i8"),
        ("increase_timer", "i8"),
        ("increase_bytes", "i8"),
        ("recovery_stages", "i8"),
        ("additive", "f8"),
        ("hyper", "f8"),
        ("min_rate", "f8"),
        ("cnp_interval", "i8"),
        ("cut_interval", "i8"),
        # how large the tables are, and where
        ("link_count", "i8"),
        ("batch_room", "i8"),
        ("path_width", "i8"),
        ("group_count", "i8"),
        ("flowlet_count", "i8"),
        *((f"{name}_at", "i8") for name in TABLES),
    ]
)

# A row of a table: compiled functions of the head and a number. `near_` has it brought into the
# cache.
near_event = prefetch(HEAD, "events_at", EVENT)
near_port = prefetch(HEAD, "ports_at", PORT)
events = table(HEAD, "events_at", EVENT)
slots = table(HEAD, "slots_at", ROW)  # the calendar: first event of each slot
slot_pairs = table(HEAD, "slots_at", LONG)  # the same, two at a time
batch = table(
    HEAD, "batch_at", ROW
)  # events of the slot that is being worked off, in order of time
far = table(HEAD, "far_at", ROW)  # heap of events beyond the calendar
ports = table(HEAD, "ports_at", PORT)  # one a link
nodes = table(HEAD, "nodes_at", NODE)
flows = table(HEAD, "flows_at", FLOW)
reactions = table(HEAD, "reactions_at", REACTION)
paths = table(HEAD, "paths_at", ROW)  # links of every flow
back_paths = table(HEAD, "back_paths_at", ROW)
dependent_index = table(HEAD, "dependent_index_at", LONG)  # CSR: flows that wait for a flow
dependents = table(HEAD, "dependents_at", ROW)
host_lags = table(HEAD, "host_lags_at", LONG)  # of every host: what its flows start late
salts = table(HEAD, "salts_at", SALT)
groups = table(HEAD, "groups_at", ROW)
choices = table(HEAD, "choices_at", ROW)
set_index = table(HEAD, "set_index_at", ROW)
set_links = table(HEAD, "set_links_at", ROW)
host_index = table(HEAD, "host_index_at", ROW)
host_links = table(HEAD, "host_links_at", ROW)
scale_ups = table(HEAD, "scale_ups_at", ROW)
flowlets = table(HEAD, "flowlets_at", FLOWLET)


class PacketState(NamedTuple):
    """The head and the tables whose addresses it holds."""

    head: Array  # one row
    events: Array
    slots: npt.NDArray[np.int32]
    batch: npt.NDArray[np.int32]
    far: npt.NDArray[np.int32]
    ports: Array
    nodes: Array
    flows: Array
    reactions: Array
    paths: npt.NDArray[np.int32]
    back_paths: npt.NDArray[np.int32]
    dependent_index: npt.NDArray[np.int64]
    dependents: npt.NDArray[np.int32]
    host_lags: npt.NDArray[np.int64]
    salts: npt.NDArray[np.uint64]
    groups: npt.NDArray[np.int32]
    choices: npt.NDArray[np.int32]
    set_index: npt.NDArray[np.int32]
    set_links: npt.NDArray[np.int32]
    host_index: npt.NDArray[np.int32]
    host_links: npt.NDArray[np.int32]
    scale_ups: npt.NDArray[np.int32]
    flowlets: Array


def bind_tables(state: PacketState) -> PacketState:
    """Write the addresses and sizes of the tables into the head."""
    for name in TABLES:
        array = getattr(state, name)
        assert array.flags.c_contiguous, name
        state.head[f"{name}_at"] = array.ctypes.data
    state.head["link_count"] = len(state.ports)
    state.head["batch_room"] = len(state.batch)
    state.head["path_width"] = state.paths.shape[1]
    state.head["group_count"] = state.choices.shape[1]
    state.head["flowlet_count"] = len(state.flowlets)
    return state
