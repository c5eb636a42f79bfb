"""What is sent: flows between hosts, what each waits for, and the patterns that networks are tried with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, Problem

Number = TypeVar("Number", np.int32, np.int64, np.float64)

__all__ = ["Traffic", "all_to_all", "incast", "permutation", "traffic_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Traffic:
    """Flows between hosts, and what each waits for."""

    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    size_bytes: npt.NDArray[np.int64]
    start_s: npt.NDArray[np.float64]  # earliest start; for a flow that waits, the delay after the last it waits for
    after_index: npt.NDArray[np.int64]  # CSR, len = flows + 1
    after: npt.NDArray[np.int32]  # flows that must be received in full first
    channel: npt.NDArray[np.int32]  # queue pair or channel: the entropy of its 5-tuple

    def __repr__(self) -> str:
        return f"<Traffic of {self.flow_count} flows and {self.total_bytes} bytes>"

    @property
    def flow_count(self) -> int:
        """How many flows there are."""
        return len(self.source)

    @property
    def total_bytes(self) -> int:
        """What all flows carry together."""
        return int(self.size_bytes.sum())

    def check(self, host_count: int) -> None:
        """Raises InputError with every way in which the traffic does not fit so many hosts."""
        if problems := _problems(self, host_count):
            raise InputError(problems)


def traffic_of(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    size_bytes: npt.ArrayLike,
    *,
    start_s: npt.ArrayLike = 0.0,
    after: tuple[tuple[int, ...], ...] | None = None,
    channel: npt.ArrayLike | None = None,
) -> Traffic:
    """The traffic of these flows; sizes and starts may be one number for all, channels count up from 0 if not given."""
    sources = np.asarray(source, dtype=np.int32).reshape(-1)
    flows = len(sources)
    waits = after or ((),) * flows
    return Traffic(
        source=sources,
        target=_spread(target, flows, np.int32),
        size_bytes=_spread(size_bytes, flows, np.int64),
        start_s=_spread(start_s, flows, np.float64),
        after_index=np.cumsum([0, *(len(wait) for wait in waits)], dtype=np.int64),
        after=np.array([flow for wait in waits for flow in wait], dtype=np.int32),
        channel=np.arange(flows, dtype=np.int32) if channel is None else _spread(channel, flows, np.int32),
    )


def permutation(hosts: int, size_bytes: int, *, seed: int) -> Traffic:
    """Every host sends to one other and receives from one other, drawn by the seed (a single cycle)."""
    order = np.random.default_rng(seed).permutation(hosts)
    target = np.empty(hosts, dtype=np.int32)
    target[order] = np.roll(order, -1)
    return traffic_of(np.arange(hosts), target, size_bytes)


def incast(hosts: int, size_bytes: int, *, target: int = 0, senders: int | None = None) -> Traffic:
    """Every other host, or the first so many others, sends to one."""
    source = np.delete(np.arange(hosts), target)[:senders]
    return traffic_of(source, np.full(len(source), target), size_bytes)


def all_to_all(hosts: int, size_bytes: int) -> Traffic:
    """Every host sends to every other at once; each starts with its right-hand neighbour."""
    source, step = np.divmod(np.arange(hosts * (hosts - 1)), hosts - 1)
    return traffic_of(source, (source + step + 1) % hosts, size_bytes)


def _spread(values: npt.ArrayLike, flows: int, kind: type[Number]) -> npt.NDArray[Number]:
    """One value for all, or one each."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype=kind), (flows,)))


def _problems(traffic: Traffic, host_count: int) -> list[Problem]:
    """Everything that is wrong."""
    flows = traffic.flow_count
    columns = (traffic.target, traffic.size_bytes, traffic.start_s, traffic.channel)
    if any(len(column) != flows for column in columns) or len(traffic.after_index) != flows + 1:
        return [Problem(where="traffic", what="columns of different length", fix="give every flow every column")]
    outside = (
        (traffic.source < 0) | (traffic.target < 0) | (traffic.source >= host_count) | (traffic.target >= host_count)
    )
    rules = (
        (outside, "a host outside the network", f"use hosts 0 to {host_count - 1}"),
        (traffic.source == traffic.target, "its source is its target", "name two hosts"),
        (traffic.size_bytes < 1, "nothing to send", "give it at least one byte"),
        (~(traffic.start_s >= 0), "a negative start", "start at 0 or later"),
    )
    found = [
        Problem(where=f"traffic flow {int(np.argmax(wrong))}", what=what, fix=fix)
        for wrong, what, fix in rules
        if wrong.any()
    ]
    owner = np.repeat(np.arange(flows), np.diff(traffic.after_index))
    if np.any((traffic.after < 0) | (traffic.after >= flows)):
        found.append(Problem(where="traffic", what="a flow waits for one that is not there", fix="use 0 to flows - 1"))
    elif np.any(owner == traffic.after):
        found.append(Problem(where="traffic", what="a flow waits for itself", fix="name an earlier flow"))
    return found
