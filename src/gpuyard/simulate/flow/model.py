"""The flow simulation as a network model for the step-time model.

A collective's latency is the calibrated one of the closed forms. Its transfer is simulated: all
groups of the same shape run at once, as they do in a training step, and the slowest flow counts.
Transfer grows in proportion to size, so each shape is simulated once and kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.perf.collectives import NEIGHBOURS, Collective, RankGroup
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import Array
from gpuyard.simulate.collectives.rounds import Exchange, Round
from gpuyard.simulate.flow.exchange import simulate_exchange
from gpuyard.simulate.flow.flow_links import FlowRoutes, live_routes
from gpuyard.simulate.flow.rounds import round_durations
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.network import Network, scale_up_switches

Ints = npt.NDArray[np.int64]
PROBE_BYTES = 2.0**30  # large, so that one packet more or less does not show


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slope:
    """Seconds per byte inside servers and between them, and how many ranks share a server."""

    near: float
    far: float
    inside: int
    outside: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowModel:
    """Collective times by the flow engine on one network; ranks are its hosts in order."""

    network: Network  # at the rates that links reach
    settings: FlowSettings
    constants: TrainingConstants
    routes: FlowRoutes
    memo: dict[tuple[str, int, int], _Slope] = field(default_factory=dict)

    def time_s(
        self, collective: Collective, size_bytes: Array, ranks: Array, group: RankGroup = NEIGHBOURS
    ) -> Array:
        """Return the seconds of one collective of `size_bytes` over `ranks`."""
        size, count, stride, ports, once, copies = np.broadcast_arrays(
            size_bytes, ranks, group.stride, group.one_port, group.once, group.copies
        )
        near, far, inside, outside = self._slopes(collective, count, stride)
        c = self.constants
        rails = np.where(ports > 0, max(1, _rails(self.network)), 1.0)
        if collective == "send":
            return size * np.maximum(near, far) + np.where(
                far > 0, c.nic_latency_s, c.scaleup_latency_s
            )
        if collective == "all-to-all":
            tokens = np.maximum(copies, 1.0)
            reach = np.where(once > 0, _reached(outside, tokens) / tokens, 1.0)
            local = np.where(once > 0, _reached(np.maximum(count, 1.0), tokens) / tokens, 1.0)
            latency = c.scaleup_latency_s * (count > 1) + c.nic_latency_s * (outside > 1)
            return np.maximum(size * near * local, size * far * reach) + latency
        latency = c.scaleup_latency_s * (inside > 1) + c.nic_latency_s * np.log2(
            np.maximum(outside, 1.0)
        )
        single = np.maximum(size * near, size * far * rails) + group.calls * latency
        return 2.0 * single if collective == "all-reduce" else single

    def _slopes(
        self, collective: Collective, ranks: Array, stride: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Seconds per byte inside and between servers, ranks per server and servers, per group."""
        kind = collective if collective in ("send", "all-to-all") else "all-gather"
        keys = np.stack([np.round(ranks), np.round(stride)], axis=-1).reshape(-1, 2)
        shapes, which = np.unique(keys, axis=0, return_inverse=True)
        slopes = [self._slope(kind, int(count), int(apart)) for count, apart in shapes]
        table = np.array([[one.near, one.far, one.inside, one.outside] for one in slopes])
        near, far, inside, outside = table[which.reshape(-1)].T.reshape((4, *ranks.shape))
        return near, far, inside, outside

    def _slope(self, kind: str, ranks: int, stride: int) -> _Slope:
        key = (kind, ranks, max(stride, 1))
        if key not in self.memo:
            self.memo[key] = _simulated(self.network, self.routes, self.settings, *key)
        return self.memo[key]


def flow_model(
    network: Network, constants: TrainingConstants, settings: FlowSettings | None = None
) -> FlowModel:
    """Return the model of a network: line rates times the calibrated NVLink and NIC ratios."""
    chosen = replace(settings or FlowSettings(), header_bytes=0, store_and_forward=False)
    inner = scale_up_switches(network)
    ratio = np.where(
        inner[network.link_from] | inner[network.link_to],
        constants.scaleup_ratio,
        constants.nic_ratio,
    )
    real = replace(network, rate_bits_per_s=network.rate_bits_per_s * ratio)
    return FlowModel(
        network=real, settings=chosen, constants=constants, routes=live_routes(real, chosen)
    )


def _rails(network: Network) -> int:
    return int(np.bincount(network.server).max())


def _reached(bins: Array, balls: Array) -> Array:
    """Expected bins hit by balls thrown at random."""
    return np.asarray(bins * (1.0 - (1.0 - 1.0 / bins) ** balls), dtype=np.float64)


def _simulated(
    network: Network, routes: FlowRoutes, settings: FlowSettings, kind: str, ranks: int, stride: int
) -> _Slope:
    """Seconds a byte of one shape, all its groups at once."""
    if ranks <= 1:
        return _Slope(near=0.0, far=0.0, inside=1, outside=1)
    if kind == "send":
        return _send(network, routes, settings, stride)
    members = _members(network, ranks, stride)
    groups, outside, inside = members.shape
    near = far = 0.0
    if inside > 1:
        near = (
            _slowest_s(routes, _pairs_inside(members, PROBE_BYTES / inside), settings) / PROBE_BYTES
        )
    if outside > 1 and kind == "all-to-all":
        square = members.transpose(1, 0, 2).reshape(outside, groups * inside)
        whole = Exchange(
            label="rails", hosts=square, size_bytes=PROBE_BYTES / outside, same_rail=True
        )
        far = simulate_exchange(routes, whole, settings).duration_s / PROBE_BYTES
    elif outside > 1:
        rings = members.transpose(0, 2, 1).reshape(-1, outside)
        step = _ring_step(rings, PROBE_BYTES / inside / outside)
        far = (outside - 1) * _slowest_s(routes, step, settings) / PROBE_BYTES
    return _Slope(near=near, far=far, inside=inside, outside=outside)


def _members(network: Network, ranks: int, stride: int) -> Ints:
    """Hosts by group, server and place in the server, for as many groups as fit the network."""
    block = ranks * stride
    if block > network.host_count:
        raise InputError.one(
            "network",
            f"{ranks} ranks {stride} apart do not fit {network.host_count} hosts",
            "simulate a larger one",
        )
    blocks = network.host_count // block
    hosts = (
        np.arange(blocks * block)
        .reshape(blocks, ranks, stride)
        .transpose(0, 2, 1)
        .reshape(-1, ranks)
    )
    inside = max(1, min(_rails(network) // stride, ranks))
    if ranks % inside or np.any(np.ptp(network.server[hosts.reshape(-1, inside)], axis=1)):
        inside = 1
    return hosts.reshape(len(hosts), ranks // inside, inside)


def _pairs_inside(members: Ints, size_bytes: float) -> Round:
    """Every member to every other in its server."""
    inside = members.shape[2]
    source = np.concatenate([members.reshape(-1)] * (inside - 1)).astype(np.int32)
    target = np.concatenate(
        [np.roll(members, -shift, axis=2).reshape(-1) for shift in range(1, inside)]
    )
    return _round(source, target.astype(np.int32), size_bytes)


def _ring_step(rings: Ints, size_bytes: float) -> Round:
    """Every member to the next of its ring."""
    return _round(
        rings.reshape(-1).astype(np.int32),
        np.roll(rings, -1, axis=1).reshape(-1).astype(np.int32),
        size_bytes,
    )


def _round(
    source: npt.NDArray[np.int32], target: npt.NDArray[np.int32], size_bytes: float
) -> Round:
    return Round(
        label="probe",
        source=source,
        target=target,
        channel=np.zeros_like(source),
        size_bytes=size_bytes,
        repeat_count=1,
    )


def _slowest_s(routes: FlowRoutes, item: Round, settings: FlowSettings) -> float:
    return float(round_durations(routes, item, settings)[0].max())


def _send(network: Network, routes: FlowRoutes, settings: FlowSettings, stride: int) -> _Slope:
    """Every host to the one a stride further, as the stages of a pipeline do."""
    source = np.arange(max(network.host_count - stride, 1))
    target = (source + stride) % network.host_count
    same = network.server[source] == network.server[target]
    if (
        stride < _rails(network) and same.any()
    ):  # stages share a server; those at its edge have no partner outside it
        source, target, same = source[same], target[same], same[same]
    if np.all(source == target):
        return _Slope(near=0.0, far=0.0, inside=1, outside=1)
    item = _round(source.astype(np.int32), target.astype(np.int32), PROBE_BYTES)
    slope = _slowest_s(routes, item, settings) / PROBE_BYTES
    near = bool(same.all())
    return _Slope(near=slope if near else 0.0, far=0.0 if near else slope, inside=1, outside=1)
