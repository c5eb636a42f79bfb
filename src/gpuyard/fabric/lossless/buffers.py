"""The packet memory of a switch: what the ports' headroom takes, what is left, and the longest cable it can cover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog import Asic, Switch
from gpuyard.catalog.rows import LinkSpeed
from gpuyard.document import Doc
from gpuyard.errors import InputError
from gpuyard.fabric.lossless.classes import Ecn, Partition, Qos
from gpuyard.fabric.lossless.headroom import PortHeadroom, headroom_of, is_published
from gpuyard.units import BYTES, LENGTH

__all__ = ["SHARING_LIMIT_RATIO", "BufferPlan", "PortGroup", "buffer_plan", "longest_cable_m"]

# A shared pool may be this much smaller than all headrooms together. It is the most that a vendor ships: SONiC's
# profile of the 7060X6-64PE has 29,423,360 bytes for 128 ports of 612,140 (sonic-buildimage, commit 086b03bd70).
SHARING_LIMIT_RATIO = 128 * 612_140 / 29_423_360


@dataclass(frozen=True, slots=True, kw_only=True)
class PortGroup:
    """Ports of one switch that are alike, and the headroom of each; None where none is published."""

    speed_bits_per_s: LinkSpeed
    cable_m: Annotated[float, LENGTH]
    port_count: int
    headroom: PortHeadroom | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferPlan:
    """One switch model in its fullest role: memory, headroom needed and room for it."""

    switch: str
    groups: tuple[PortGroup, ...]
    pooled: Annotated[bool, Doc("all ports share the room, so it may be smaller than the sum")]
    buffer_bytes: Annotated[int | None, BYTES] = None
    need_bytes: Annotated[int | None, BYTES, Doc("headroom of every port at once, one lossless priority each")] = None
    room_bytes: Annotated[int | None, BYTES, Doc("memory that headroom may take")] = None
    shared_bytes: Annotated[int | None, BYTES, Doc("lossless memory that ports compete for before they pause")] = None
    alpha: Annotated[float | None, Doc("share of the free memory that one queue may take; None: not published")] = None

    @property
    def sharing_ratio(self) -> float | None:
        """Headroom needed over room: above 1, not every port can be paused at once without loss."""
        return self.need_bytes / self.room_bytes if self.need_bytes is not None and self.room_bytes else None

    @property
    def fits(self) -> bool:
        """Whether the room covers the headroom, shared if it is a pool; true where neither is known."""
        ratio = self.sharing_ratio
        return ratio is None or ratio <= (SHARING_LIMIT_RATIO if self.pooled else 1.0)

    @property
    def covered_count(self) -> int | None:
        """Ports of the hungriest kind that can be paused at once without loss."""
        largest = max((group.headroom.xoff_bytes for group in self.groups if group.headroom), default=0)
        count = sum(group.port_count for group in self.groups)
        return min(count, self.room_bytes // largest) if self.room_bytes and largest else None

    def pfc_threshold_bytes(self, congested_count: int) -> float | None:
        """Fill at which a queue pauses its peer while this many queues are congested: α·free, at rest."""
        if self.alpha is None or self.shared_bytes is None:
            return None
        return self.alpha * self.shared_bytes / (1 + self.alpha * congested_count)

    def ecn_first_count(self, ecn: Ecn) -> int | None:
        """Queues that may be congested at once while ECN still marks all before PFC pauses; None if not known."""
        if self.alpha is None or self.shared_bytes is None or ecn.high_bytes is None:
            return None
        return max(0, math.ceil(self.shared_bytes / ecn.high_bytes - 1 / self.alpha) - 1)

    def works(self, ecn: Ecn) -> bool:
        """Whether the headroom fits and leaves enough for ECN to act before PFC, with one congested queue at least."""
        return self.fits and self.ecn_first_count(ecn) != 0


def buffer_plan(
    switch: Switch,
    asic: Asic | None,
    ports: Sequence[tuple[float, float, int]],
    partition: Partition | None,
    mtu_bytes: int,
) -> BufferPlan:
    """The plan for ports given as speed, cable and count. Cables longer than a published table raise InputError."""
    groups = tuple(
        PortGroup(
            speed_bits_per_s=speed, cable_m=cable_m, port_count=count,
            headroom=headroom_of(switch, asic, speed, cable_m, mtu_bytes)
            if asic and is_published(switch, asic, speed) else None,
        )
        for speed, cable_m, count in sorted(ports)
    )  # fmt: skip
    buffer = round(asic.buffer_bytes) if asic and asic.buffer_bytes else None
    pool, shared = _room(switch, buffer, partition)
    pooled, known = pool is not None, all(group.headroom for group in groups)
    need = sum(
        group.port_count * (group.headroom.xoff_bytes if pooled else group.headroom.size_bytes)
        for group in groups
        if group.headroom
    )
    if not pooled and buffer is not None:  # reserved port by port; what is left is shared (SONiC on Spectrum)
        pool, shared = buffer, buffer - need
    return BufferPlan(
        switch=switch.name, groups=groups, buffer_bytes=buffer, need_bytes=need if known else None,
        room_bytes=pool, pooled=pooled, shared_bytes=shared,
        # SONiC's default_dynamic_th 0 means 2^0; Junos prints an index whose table is not public.
        alpha=1.0 if partition is None and known else None,
    )  # fmt: skip


def _room(switch: Switch, buffer: int | None, partition: Partition | None) -> tuple[int | None, int | None]:
    """The pool for headroom and the memory shared by lossless traffic; None where headroom is kept port by port."""
    if partition is not None and buffer is not None:
        usable = buffer * (1 - (partition.dedicated_ingress_ratio or 0.0))
        return int(usable * partition.ingress_headroom_ratio), int(usable * partition.ingress_lossless_ratio)
    if switch.headroom_pool_bytes is not None and buffer is not None:
        pool = round(switch.headroom_pool_bytes)
        return pool, buffer - pool
    return None, None


def longest_cable_m(
    switch: Switch,
    asic: Asic,
    ports: Sequence[tuple[float, float, int]],
    qos: Qos,
    mtu_bytes: int,
) -> int:
    """The longest cable, in whole metres, that the ports with the longest cables could have; 0 if none fits."""
    longest = max(cable_m for _, cable_m, _ in ports)

    def fits(metres: int) -> bool:
        """Whether the buffer covers this length in place of the longest."""
        moved = [(speed, metres if cable_m == longest else min(cable_m, metres), count)
                 for speed, cable_m, count in ports]  # fmt: skip
        try:
            return buffer_plan(switch, asic, moved, qos.partition, mtu_bytes).works(qos.ecn)
        except InputError:
            return False

    low, high = 0, math.ceil(longest)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
