"""Flow sets: flows between hosts with dependencies, and standard traffic patterns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, Problem

Number = TypeVar("Number", np.int32, np.int64, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FlowSet:
    """Flows between hosts, and what each waits for."""

    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    size_bytes: npt.NDArray[np.int64]
    start_s: npt.NDArray[
        np.float64
    ]  # earliest start; for a flow that waits, the delay after the last it waits for
    after_index: npt.NDArray[np.int64]  # CSR, len = flows + 1
    after: npt.NDArray[np.int32]  # flows that must be received in full first
    channel: npt.NDArray[np.int32]  # queue pair or channel: the entropy of its 5-tuple

    def __repr__(self) -> str:
        return f"<Traffic of {self.flow_count} flows and {self.total_bytes} bytes>"

    @property
    def flow_count(self) -> int:
        return len(self.source)

    @property
    def total_bytes(self) -> int:
        return int(self.size_bytes.sum())

    def check(self, host_count: int) -> None:
        """Raise InputError with every way in which the traffic does not fit the hosts."""
        if problems := _problems(self, host_count):
            raise InputError(problems)


def striped(traffic: FlowSet, count: int) -> FlowSet:
    """Return the traffic with each flow split evenly into `count` flows, listed together."""
    if count == 1:
        return traffic
    stripe = np.tile(np.arange(count), traffic.flow_count)
    row = np.repeat(np.arange(traffic.flow_count), count)
    waits = np.diff(traffic.after_index)[row]
    index = np.zeros(len(row) + 1, dtype=np.int64)
    np.cumsum(waits, out=index[1:])
    after = traffic.after[
        np.repeat(traffic.after_index[row] - index[:-1], waits) + np.arange(index[-1])
    ]
    return FlowSet(
        source=traffic.source[row],
        target=traffic.target[row],
        size_bytes=np.maximum(1, (traffic.size_bytes[row] + stripe) // count),
        start_s=traffic.start_s[row],
        after_index=index * count,
        after=(after[:, None] * count + np.arange(count)).reshape(-1).astype(np.int32),
        channel=traffic.channel[row],
    )


def traffic_of(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    size_bytes: npt.ArrayLike,
    *,
    start_s: npt.ArrayLike = 0.0,
    after: tuple[tuple[int, ...], ...] | None = None,
    channel: npt.ArrayLike | None = None,
) -> FlowSet:
    """Return flows; sizes and starts may be one number for all, channels default to 0, 1, …"""
    sources = np.asarray(source, dtype=np.int32).reshape(-1)
    flows = len(sources)
    waits = after or ((),) * flows
    return FlowSet(
        source=sources,
        target=_spread(target, flows, np.int32),
        size_bytes=_spread(size_bytes, flows, np.int64),
        start_s=_spread(start_s, flows, np.float64),
        after_index=np.cumsum([0, *(len(wait) for wait in waits)], dtype=np.int64),
        after=np.array([flow for wait in waits for flow in wait], dtype=np.int32),
        channel=(
            np.arange(flows, dtype=np.int32)
            if channel is None
            else _spread(channel, flows, np.int32)
        ),
    )


def permutation(hosts: int, size_bytes: int, *, seed: int) -> FlowSet:
    """Return a random single cycle: every host sends to one other and receives from one."""
    order = np.random.default_rng(seed).permutation(hosts)
    target = np.empty(hosts, dtype=np.int32)
    target[order] = np.roll(order, -1)
    return traffic_of(np.arange(hosts), target, size_bytes)


def incast(hosts: int, size_bytes: int, *, target: int = 0, senders: int | None = None) -> FlowSet:
    """Return flows of every other host, or the first `count` others, to one."""
    source = np.delete(np.arange(hosts), target)[:senders]
    return traffic_of(source, np.full(len(source), target), size_bytes)


def all_to_all(hosts: int, size_bytes: int) -> FlowSet:
    """Every host sends to every other at once; each starts with its right-hand neighbour."""
    source, step = np.divmod(np.arange(hosts * (hosts - 1)), hosts - 1)
    return traffic_of(source, (source + step + 1) % hosts, size_bytes)


def _spread(values: npt.ArrayLike, flows: int, kind: type[Number]) -> npt.NDArray[Number]:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype=kind), (flows,)))


def _problems(traffic: FlowSet, host_count: int) -> list[Problem]:
    flows = traffic.flow_count
    columns = (traffic.target, traffic.size_bytes, traffic.start_s, traffic.channel)
    if any(len(column) != flows for column in columns) or len(traffic.after_index) != flows + 1:
        return [
            Problem(
                where="traffic",
                what="columns of different length",
                fix="give every flow every column",
            )
        ]
    outside = (
        (traffic.source < 0)
        | (traffic.target < 0)
        | (traffic.source >= host_count)
        | (traffic.target >= host_count)
    )
    rules = (
        (outside, "a host outside the network", f"use hosts 0 to {host_count - 1}"),
        (traffic.source == traffic.target, "its source is its target", "name two hosts"),
        (traffic.size_bytes < 1, "nothing to send", "give it at least one byte"),
        (~(traffic.start_s >= 0), "a negative start", "start at 0 or later"),
    )
    problems = [
        Problem(where=f"traffic flow {int(np.argmax(wrong))}", what=what, fix=fix)
        for wrong, what, fix in rules
        if wrong.any()
    ]
    owner = np.repeat(np.arange(flows), np.diff(traffic.after_index))
    if np.any((traffic.after < 0) | (traffic.after >= flows)):
        problems.append(
            Problem(
                where="traffic",
                what="a flow waits for one that is not there",
                fix="use 0 to flows - 1",
            )
        )
    elif np.any(owner == traffic.after):
        problems.append(
            Problem(where="traffic", what="a flow waits for itself", fix="name an earlier flow")
        )
    return problems
