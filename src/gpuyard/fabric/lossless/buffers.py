"""The packet buffer of a switch: headroom of its ports, shared buffer, and longest cable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.rows import LinkSpeed
from gpuyard.catalog.switches import Asic, Switch
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.fabric.lossless.headroom import PortHeadroom, headroom_of, is_published
from gpuyard.fabric.lossless.qos import BufferPartition, EcnConfig, QosProfile
from gpuyard.units import BYTES, LENGTH

# The largest oversubscription of a headroom pool that a vendor ships: SONiC's profile of the
# 7060X6-64PE has 29,423,360 bytes for 128 ports of 612,140 (sonic-buildimage, commit 086b03bd70).
SHARING_LIMIT_RATIO = 128 * 612_140 / 29_423_360


@dataclass(frozen=True, slots=True, kw_only=True)
class PortGroup:
    """Identical ports of a switch, and the headroom of each; None if not published."""

    speed_bits_per_s: LinkSpeed
    cable_m: Annotated[float, LENGTH]
    port_count: int
    headroom: PortHeadroom | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferPlan:
    """Buffer of a switch model in one role: size, headroom needed and headroom available."""

    switch: str
    groups: tuple[PortGroup, ...]
    pooled: Annotated[bool, Doc("ports share the headroom, so it may be smaller than the sum")]
    buffer_bytes: Annotated[int | None, BYTES] = None
    need_bytes: Annotated[
        int | None, BYTES, Doc("headroom of all ports, one lossless priority each")
    ] = None
    room_bytes: Annotated[int | None, BYTES, Doc("buffer available for headroom")] = None
    shared_bytes: Annotated[
        int | None, BYTES, Doc("lossless buffer that ports share before PFC pauses")
    ] = None
    alpha: Annotated[
        float | None, Doc("share of the free buffer that a queue may use; None: not published")
    ] = None

    @property
    def sharing_ratio(self) -> float | None:
        """Headroom needed over available: above 1, not all ports can be paused without loss."""
        return (
            self.need_bytes / self.room_bytes
            if self.need_bytes is not None and self.room_bytes
            else None
        )

    @property
    def fits(self) -> bool:
        """Whether the headroom fits, shared if it is a pool; True if unknown."""
        ratio = self.sharing_ratio
        return ratio is None or ratio <= (SHARING_LIMIT_RATIO if self.pooled else 1.0)

    @property
    def covered_count(self) -> int | None:
        """Ports with the largest headroom that can be paused at once without loss."""
        largest = max(
            (group.headroom.xoff_bytes for group in self.groups if group.headroom), default=0
        )
        count = sum(group.port_count for group in self.groups)
        return min(count, self.room_bytes // largest) if self.room_bytes and largest else None

    def pfc_threshold_bytes(self, congested_count: int) -> float | None:
        """Return the fill at which a queue pauses its peer, with N congested queues: α·free."""
        if self.alpha is None or self.shared_bytes is None:
            return None
        return self.alpha * self.shared_bytes / (1 + self.alpha * congested_count)

    def ecn_first_count(self, ecn: EcnConfig) -> int | None:
        """Return the congested queues up to which ECN marks before PFC; None if unknown."""
        if self.alpha is None or self.shared_bytes is None or ecn.high_bytes is None:
            return None
        return max(0, math.ceil(self.shared_bytes / ecn.high_bytes - 1 / self.alpha) - 1)

    def works(self, ecn: EcnConfig) -> bool:
        """Return whether the headroom fits and ECN marks before PFC with one congested queue."""
        return self.fits and self.ecn_first_count(ecn) != 0


def buffer_plan(
    switch: Switch,
    asic: Asic | None,
    ports: Sequence[tuple[float, float, int]],
    partition: BufferPartition | None,
    mtu_bytes: int,
) -> BufferPlan:
    """Return the plan for ports as (speed, cable, count); InputError if a table is exceeded."""
    groups = tuple(
        PortGroup(
            speed_bits_per_s=speed,
            cable_m=cable_m,
            port_count=count,
            headroom=headroom_of(switch, asic, speed, cable_m, mtu_bytes)
            if asic and is_published(switch, asic, speed)
            else None,
        )
        for speed, cable_m, count in sorted(ports)
    )
    buffer = round(asic.buffer_bytes) if asic and asic.buffer_bytes else None
    pool, shared = _room(switch, buffer, partition)
    pooled, known = pool is not None, all(group.headroom for group in groups)
    need = sum(
        group.port_count * (group.headroom.xoff_bytes if pooled else group.headroom.size_bytes)
        for group in groups
        if group.headroom
    )
    if (
        not pooled and buffer is not None
    ):  # reserved port by port; what is left is shared (SONiC on Spectrum)
        pool, shared = buffer, buffer - need
    return BufferPlan(
        switch=switch.name,
        groups=groups,
        buffer_bytes=buffer,
        need_bytes=need if known else None,
        room_bytes=pool,
        pooled=pooled,
        shared_bytes=shared,
        # SONiC's default_dynamic_th 0 means 2^0; Junos prints an index whose table is not public.
        alpha=1.0 if partition is None and known else None,
    )


def _room(
    switch: Switch, buffer: int | None, partition: BufferPartition | None
) -> tuple[int | None, int | None]:
    # Headroom pool and shared lossless buffer; None if headroom is reserved per port.
    if partition is not None and buffer is not None:
        usable = buffer * (1 - (partition.dedicated_ingress_ratio or 0.0))
        return int(usable * partition.ingress_headroom_ratio), int(
            usable * partition.ingress_lossless_ratio
        )
    if switch.headroom_pool_bytes is not None and buffer is not None:
        pool = round(switch.headroom_pool_bytes)
        return pool, buffer - pool
    return None, None


def longest_cable_m(
    switch: Switch,
    asic: Asic,
    ports: Sequence[tuple[float, float, int]],
    qos: QosProfile,
    mtu_bytes: int,
) -> int:
    """Return the longest cable in metres for the ports with the longest cables; 0 if none fits."""
    longest = max(cable_m for _, cable_m, _ in ports)

    def fits(metres: int) -> bool:
        moved = [
            (speed, metres if cable_m == longest else min(cable_m, metres), count)
            for speed, cable_m, count in ports
        ]
        try:
            return buffer_plan(switch, asic, moved, qos.partition, mtu_bytes).works(qos.ecn)
        except InputError:
            return False

    low, high = 0, math.ceil(longest)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
