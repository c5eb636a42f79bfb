"""Build the packet engine's state from network, traffic and settings."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.simulate.network import Network
from gpuyard.simulate.packet.balance import ADAPTIVE, BY_FLOWLET, FIXED, HASHED, SPRAY
from gpuyard.simulate.packet.memory import aligned
from gpuyard.simulate.packet.receivers import (
    ACKS_CONTROL,
    ACKS_DELAYED,
    ACKS_FINAL,
    ACKS_QUEUED,
)
from gpuyard.simulate.packet.settings import DcqcnSettings, PacketSettings
from gpuyard.simulate.packet.state import (
    EVENT,
    FLOW,
    FLOWLET,
    HEAD,
    NEVER,
    NODE,
    NONE,
    PORT,
    REACTION,
    START,
    TX,
    PacketState,
    bind_tables,
)
from gpuyard.simulate.routes import (
    Routes,
    drawn,
    flow_hash,
    flow_paths,
    host_ports,
    switch_salts,
)
from gpuyard.simulate.traffic import FlowSet
from gpuyard.units import bits_from_bytes, bytes_from_bits

PS_PER_S = 1e12
POOL_ROWS_PER_LINK = 256
SPARE_ROWS = 16
MOST_HOPS = 127  # what an event's counter holds
EVENTS_PER_SLOT, EVENTS_PER_HOP = 2.0, 1.5  # what the width of a calendar slot aims at
BALANCES = {"ecmp": FIXED, "spray": SPRAY, "adaptive": ADAPTIVE, "flowlet": BY_FLOWLET}
ACKS = {
    "delayed": ACKS_DELAYED,
    "queued": ACKS_QUEUED,
    "quick": ACKS_CONTROL,
    "final": ACKS_FINAL,
}
NO_LIMIT = 2**60


def build(
    network: Network,
    routes: Routes,
    traffic: FlowSet,
    settings: PacketSettings,
    *,
    rerouted: bool = False,
) -> PacketState:
    """Return the state before the first event.

    With `rerouted`, switches look up routes per packet, so that routes can change.
    """
    _check(network, routes, settings)
    hashes = flow_hash(traffic)
    salts = switch_salts(network, settings.seed, polarised=settings.polarised)
    back_hashes = np.bitwise_xor(hashes, np.uint64(0x5BD1E995))
    port = np.arange(traffic.flow_count, dtype=np.int32) % host_ports(routes)
    paths = flow_paths(routes, traffic.source, traffic.target, hashes, salts, port)
    back = flow_paths(routes, traffic.target, traffic.source, back_hashes, salts, port)
    ports = _lines(network, settings)
    head = _head(network, settings, rerouted)
    flows = _flows(network, traffic, settings, paths, back)
    flows["hash"], flows["back_hash"] = hashes, back_hashes
    dependent_index, dependents = _followers(traffic)
    _set_slots(head, ports, traffic, paths, settings)
    rows = network.link_count + traffic.flow_count
    spare = SPARE_ROWS * settings.burst_count + network.link_count  # for one event or action
    pool = POOL_ROWS_PER_LINK * network.link_count + 4096 + spare  # untouched memory is free
    head["unfinished"], head["cursor"], head["free"] = traffic.flow_count, -1, NONE
    head["fresh"], head["last_fresh"] = rows, rows + pool - spare
    flowlets = aligned(
        settings.flowlet_table_count if settings.balance == "flowlet" else 1, FLOWLET
    )
    flowlets["seen"] = -NEVER
    return bind_tables(
        PacketState(
            head=head,
            events=_events(network.link_count, traffic.flow_count, pool),
            slots=np.full(int(head["mask"][0]) + 1, NONE, dtype=np.int32),
            batch=np.empty(rows + pool, dtype=np.int32),
            far=np.empty(rows + pool, dtype=np.int32),
            ports=ports,
            nodes=_nodes(network, settings),
            flows=flows,
            reactions=_reactions(traffic, settings),
            paths=paths,
            back_paths=back,
            dependent_index=dependent_index,
            dependents=dependents,
            host_lags=np.zeros(network.host_count, dtype=np.int64),
            salts=salts,
            groups=routes.group,
            choices=routes.table,
            set_index=routes.set_index,
            set_links=routes.set_links,
            host_index=routes.host_index,
            host_links=routes.host_links,
            scale_ups=routes.scale_up,
            flowlets=flowlets,
        )
    )


def _check(network: Network, routes: Routes, settings: PacketSettings) -> None:
    """Raise InputError if the settings do not fit the network."""
    if routes.longest > MOST_HOPS:
        raise InputError.one(
            "network", f"a path of {routes.longest} links", f"use at most {MOST_HOPS}"
        )
    rooms = np.bincount(network.link_to, _headroom_bytes(network, settings), network.node_count)[
        network.host_count :
    ]
    if settings.buffer_bytes is not None and rooms.max() >= settings.buffer_bytes:
        switch = network.names[network.host_count + int(rooms.argmax())]
        raise InputError.one(
            f"packet settings: {switch}",
            f"headroom of {rooms.max():.0f} bytes in a buffer of {settings.buffer_bytes}",
            "give a larger buffer_bytes, a smaller headroom_bytes, or shorter cables",
        )


def grow_pool(state: PacketState) -> PacketState:
    """Return the state with twice the event rows."""
    before = len(state.events)
    events = aligned(before, EVENT, spare=before)
    events[:before] = state.events
    state.head["last_fresh"] += before
    wider = np.empty(before, dtype=np.int32)
    return bind_tables(
        state._replace(
            events=events,
            batch=np.concatenate([state.batch, wider]),
            far=np.concatenate([state.far, wider]),
        )
    )


def with_routes(state: PacketState, routes: Routes) -> PacketState:
    """Return the state with new routes."""
    return bind_tables(
        state._replace(
            groups=routes.group,
            choices=routes.table,
            set_index=routes.set_index,
            set_links=routes.set_links,
            host_index=routes.host_index,
            host_links=routes.host_links,
            scale_ups=routes.scale_up,
        )
    )


def _ps(seconds: float | npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.rint(np.asarray(seconds) * PS_PER_S).astype(np.int64)


def _s_per_byte(network: Network) -> npt.NDArray[np.float64]:
    return bits_from_bytes(1) / network.rate_bits_per_s


def _events(links: int, flows: int, pool: int) -> npt.NDArray[np.void]:
    """The rows of the links and of the flows, and a pool of free ones."""
    events = aligned(
        links + flows, EVENT, spare=pool
    )  # whoever takes a row of the pool fills in what is read of it
    events["kind"][:links] = TX
    events["kind"][links : links + flows] = START
    return events


def _lines(network: Network, settings: PacketSettings) -> npt.NDArray[np.void]:
    ports = aligned(network.link_count, PORT)
    for field in ("head", "tail", "control_head", "control_tail", "ring_head", "ring_tail"):
        ports[field] = NONE
    ports["delay"] = _ps(network.delay_s)
    ports["ps_per_byte"] = PS_PER_S * _s_per_byte(network)
    ports["to"] = network.link_to
    ports["to_host"] = network.link_to < network.host_count
    ports["from_host"] = network.link_from < network.host_count
    ports["headroom"] = _headroom_bytes(network, settings)
    return ports


def _headroom_bytes(network: Network, settings: PacketSettings) -> npt.NDArray[np.int64]:
    """The headroom of every link: as set, or what arrives between a pause and its effect."""
    pfc = settings.pfc
    if pfc is None:
        return np.zeros(network.link_count, dtype=np.int64)
    if pfc.headroom_bytes is not None:
        return np.full(network.link_count, pfc.headroom_bytes, dtype=np.int64)
    wire_bytes = (settings.payload_bytes + settings.header_bytes) * settings.cell_count
    # In flight until the sender stops; the packet that crossed XOFF and the one being sent.
    in_flight = (2 * network.delay_s + pfc.frame_delay_s) / _s_per_byte(network)
    return np.ceil(in_flight + 2 * wire_bytes).astype(np.int64)


def _nodes(network: Network, settings: PacketSettings) -> npt.NDArray[np.void]:
    nodes = aligned(network.node_count, NODE)
    nodes["limit"] = NO_LIMIT if settings.buffer_bytes is None else settings.buffer_bytes
    return nodes


def _flows(
    network: Network,
    traffic: FlowSet,
    settings: PacketSettings,
    paths: npt.NDArray[np.int32],
    back: npt.NDArray[np.int32],
) -> npt.NDArray[np.void]:
    flows = aligned(traffic.flow_count, FLOW)
    payload = settings.payload_bytes * settings.cell_count
    flows["packets"] = -(-traffic.size_bytes // payload)
    last = traffic.size_bytes - (flows["packets"].astype(np.int64) - 1) * payload
    flows["last_bytes"] = last + settings.header_bytes * -(-last // settings.payload_bytes)
    for field in ("next", "resend", "nacked", "timeout_seq", "highest", "began", "finish"):
        flows[field] = NONE
    flows["waits"] = np.diff(traffic.after_index)
    flows["source"], flows["target"] = traffic.source, traffic.target
    flows["link"], flows["back_link"] = paths[:, 0], back[:, 0]
    flows["start"] = _ps(traffic.start_s)
    if settings.window_bytes is not None:
        flows["window"] = max(1, settings.window_bytes // payload)
    per_link = np.append(network.delay_s + settings.ack_bytes * _s_per_byte(network), 0.0)
    flows["ack_delay"] = _ps(
        per_link[back].sum(axis=1)
    )  # -1 fills a path up, and finds the 0 at the end
    return flows


def _followers(traffic: FlowSet) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The dependents of each flow in CSR form."""
    owners = np.repeat(np.arange(traffic.flow_count, dtype=np.int32), np.diff(traffic.after_index))
    order = np.argsort(traffic.after, kind="stable")
    return (
        np.searchsorted(traffic.after[order], np.arange(traffic.flow_count + 1)).astype(np.int64),
        owners[order],
    )


def _reactions(traffic: FlowSet, settings: PacketSettings) -> npt.NDArray[np.void]:
    """One row per flow with DCQCN, else one."""
    if settings.dcqcn is None:
        return aligned(1, REACTION)
    reactions = aligned(traffic.flow_count, REACTION)
    reactions["rate"] = np.inf
    reactions["alpha"] = settings.dcqcn.initial_alpha_ratio
    reactions["cnp_at"] = -NEVER
    return reactions


def _head(network: Network, settings: PacketSettings, rerouted: bool) -> npt.NDArray[np.void]:
    """The settings as the compiled functions read them."""
    head = aligned(1, HEAD)
    pfc, ecn = settings.pfc, settings.ecn
    balance = BALANCES[settings.balance]
    values: dict[str, float] = {
        "payload": settings.payload_bytes * settings.cell_count,
        "header": settings.header_bytes * settings.cell_count,
        "ack_bytes": settings.ack_bytes,
        "host_count": network.host_count,
        "balance": HASHED if balance == FIXED and rerouted else balance,
        "ordered": balance == FIXED,
        "acks": ACKS[settings.acks],
        "finish_acked": settings.done == "acknowledged",
        "windowed": settings.window_bytes is not None,
        "lossless": pfc is not None,
        "cut_through": settings.forwarding == "cut-through",
        "burst": settings.burst_count,
        "flowlet_gap": settings.flowlet_gap_s * PS_PER_S,
        "rto": settings.retransmit_timeout_s * PS_PER_S,
        "retries": settings.retry_count,
        "seed": int(drawn(settings.seed, 1)[0]),
        "dynamic": pfc is None or pfc.alpha_ratio is not None,
        "alpha": settings.lossy_alpha_ratio if pfc is None else pfc.alpha_ratio or 0.0,
        "pool": settings.buffer_bytes or NO_LIMIT,
    }
    if pfc is not None:
        rooms = np.bincount(network.link_to, _headroom_bytes(network, settings), network.node_count)
        values |= {
            "xoff": pfc.xoff_bytes,
            "xon_gap": pfc.xoff_bytes - pfc.xon_bytes,
            "pause_delay": pfc.frame_delay_s * PS_PER_S,
            "pool": values["pool"] - math.ceil(rooms[network.host_count :].max()),
        }
    if ecn is not None:
        values |= {"ecn": 1, "kmin": ecn.kmin_bytes, "kmax": ecn.kmax_bytes, "pmax": ecn.pmax_ratio}
    values |= _dcqcn_values(settings.dcqcn)
    for name, value in values.items():
        head[name] = value
    return head


def _dcqcn_values(dcqcn: DcqcnSettings | None) -> dict[str, float]:
    if dcqcn is None:
        return {}
    return {
        "dcqcn": 1,
        "g": dcqcn.g_ratio,
        "alpha_timer": dcqcn.alpha_timer_s * PS_PER_S,
        "increase_timer": dcqcn.increase_timer_s * PS_PER_S,
        "increase_bytes": dcqcn.increase_bytes or 0,
        "recovery_stages": dcqcn.fast_recovery_count,
        "additive": bytes_from_bits(dcqcn.additive_bits_per_s) / PS_PER_S,
        "hyper": bytes_from_bits(dcqcn.hyper_bits_per_s) / PS_PER_S,
        "min_rate": bytes_from_bits(dcqcn.minimum_bits_per_s) / PS_PER_S,
        "cnp_interval": dcqcn.cnp_interval_s * PS_PER_S,
        "cut_interval": dcqcn.decrease_interval_s * PS_PER_S,
    }


def _set_slots(
    head: npt.NDArray[np.void],
    ports: npt.NDArray[np.void],
    traffic: FlowSet,
    paths: npt.NDArray[np.int32],
    settings: PacketSettings,
) -> None:
    """Set width and number of calendar slots: a few events per slot, one hop ahead in total."""
    wire_bytes = (settings.payload_bytes + settings.header_bytes) * settings.cell_count
    # Hosts at full rate: all sources until queues fill, as many as targets then.
    sending = math.sqrt(_distinct(traffic.source) * _distinct(traffic.target))
    packet_ps = float(np.min(ports["ps_per_byte"][paths[:, 0]])) * wire_bytes
    events_per_ps = (
        sending * EVENTS_PER_HOP * float(np.mean(np.count_nonzero(paths >= 0, axis=1))) / packet_ps
    )
    ahead_ps = float(np.max(ports["delay"] + ports["ps_per_byte"] * wire_bytes))
    head["shift"] = max(0, round(math.log2(max(1.0, EVENTS_PER_SLOT / events_per_ps))))
    head["mask"] = (
        2 ** max(10, math.ceil(math.log2(1.05 * ahead_ps / 2.0 ** int(head["shift"][0])))) - 1
    )


def _distinct(hosts: npt.NDArray[np.int32]) -> int:
    return int(np.count_nonzero(np.bincount(hosts)))
