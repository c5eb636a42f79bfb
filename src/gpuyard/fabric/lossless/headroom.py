"""Headroom: what still arrives on a port after it has said stop, and must be held.

Spectrum follows an open formula (SONiC, `buffer_headroom_mellanox.lua`); other chips have published tables only,
read as they are and, between two lengths, on the straight line through them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog import Asic, Headroom, HeadroomLookup, Switch
from gpuyard.errors import InputError, Problem, one_of
from gpuyard.units import BITS_PER_S, BYTES, bytes_from_bits, show

__all__ = ["LOSSLESS_MTU_BYTES", "PortHeadroom", "headroom", "headroom_of", "is_published"]

Method = Literal["formula", "table", "interpolated"]

SIGNAL_M_PER_S = 198e6  # in fibre and copper alike, as SONiC reckons
SMALLEST_PACKET_BYTES = 64
QUANTUM_BYTES = 64  # 512 bit times
ROUNDING_BYTES = 1024
LOSSLESS_MTU_BYTES = 1024  # SONiC's LOSSLESS_TRAFFIC_PATTERN: RDMA sends messages in pieces of this size
COMPENSATION_BYTES = 2048  # added where few small packets are assumed and nothing is shared
# SONiC's default MTU, which the shipped tables add to eight-lane ports, although the xoff beside it assumes 9,216.
EIGHT_LANE_BYTES = 9100
# Ports of eight lanes by their speed: lanes of 50 Gb/s in Spectrum-3 and of 100 Gb/s in Spectrum-4 and -5.
EIGHT_LANE_BITS_PER_S = {"spectrum-3": 400e9, "spectrum-4": 800e9, "spectrum-5": 800e9}


@dataclass(frozen=True, slots=True, kw_only=True)
class PortHeadroom:
    """What one lossless priority of one port needs."""

    xoff_bytes: Annotated[int, BYTES]
    xon_bytes: Annotated[int, BYTES]
    size_bytes: Annotated[int, BYTES]
    method: Method
    xon_offset_bytes: Annotated[int | None, BYTES] = None


def headroom(
    asic: Asic,
    speed_bits_per_s: float,
    cable_m: float,
    mtu_bytes: int = 9216,
    small_packet_ratio: float = 1.0,
    *,
    lanes: int | None = None,
    shared_pool: bool = False,
    table: Sequence[HeadroomLookup] = (),
) -> PortHeadroom:
    """Headroom of a port; `table` is the switch's own, which goes before its ASIC's."""
    if problems := list(_problems(asic, speed_bits_per_s, cable_m, mtu_bytes, small_packet_ratio)):
        raise InputError(problems)
    rows = tuple(table) or asic.headroom_lookup
    if rows:
        return _looked_up(asic, rows, speed_bits_per_s, cable_m)
    eight = lanes == 8 if lanes else speed_bits_per_s == EIGHT_LANE_BITS_PER_S.get(asic.name)
    return _reckoned(asic, speed_bits_per_s, cable_m, mtu_bytes, small_packet_ratio, eight, shared_pool)


def is_published(switch: Switch, asic: Asic, speed_bits_per_s: float) -> bool:
    """Whether there is a formula, or a table with this speed, for ports of this switch."""
    rows = switch.headroom_lookup or asic.headroom_lookup
    return any(row.speed_bits_per_s == speed_bits_per_s for row in rows) if rows else asic.headroom is not None


def headroom_of(
    switch: Switch, asic: Asic, speed_bits_per_s: float, cable_m: float, mtu_bytes: int = 9216
) -> PortHeadroom:
    """Headroom of a port of this switch, small packets only: the worst case."""
    return headroom(asic, speed_bits_per_s, cable_m, mtu_bytes, table=switch.headroom_lookup)


def _problems(asic: Asic, speed: float, cable_m: float, mtu: int, small: float) -> Iterator[Problem]:
    """What is wrong with the question."""
    if asic.headroom is None and not asic.headroom_lookup:
        yield Problem(
            where="asic", what=f"no headroom is published for {asic.label}", fix="measure it, or ask its maker"
        )
    if not speed > 0 or speed > (asic.capacity_bits_per_s or math.inf):
        yield Problem(where="speed", what=f"{show(speed, BITS_PER_S)} is no speed of a port of {asic.label}",
                      fix="give the speed of the port, such as 400Gbps")  # fmt: skip
    if not 0 <= cable_m < math.inf:
        yield Problem(where="cable", what=f"a cable of {cable_m:g} m", fix="give its length in metres, such as 40m")
    if mtu < SMALLEST_PACKET_BYTES:
        yield Problem(
            where="mtu", what=f"an MTU of {mtu} bytes", fix="give the largest frame of the port, such as 9216"
        )
    if not 0 <= small <= 1:
        yield Problem(where="small packets", what=f"a share of {small * 100:g} %", fix="give 0 to 100 per cent")


def _reckoned(
    asic: Asic, speed: float, cable_m: float, mtu: int, small: float, eight: bool, shared_pool: bool
) -> PortHeadroom:
    """The open formula."""
    constants = asic.headroom
    assert constants is not None
    factor = _memory_factor(asic, constants)
    delay = (
        mtu                                                               # leaving as the pause is to be sent
        + bytes_from_bits(2 * cable_m / SIGNAL_M_PER_S * speed)           # on the cable, there and back
        + constants.mac_phy_bytes                                         # in MAC and PHY
        + _peer_bytes(constants, speed)                                   # before the peer stops
        + bytes_from_bits(constants.tile_s * speed)                       # crossing the chip
    )  # fmt: skip
    exact = LOSSLESS_MTU_BYTES + delay * _occupancy(small, factor)
    xoff = _up(exact) + round(constants.extra_bytes)
    if not shared_pool and small < 1 and xoff + COMPENSATION_BYTES < _up(LOSSLESS_MTU_BYTES + delay * factor):
        xoff, exact = xoff + COMPENSATION_BYTES, exact + COMPENSATION_BYTES
    pipeline = constants.pipeline_bytes
    if eight:
        pipeline = constants.eight_lane_pipeline_bytes or 2 * constants.pipeline_bytes
    xon = _up(pipeline)
    if shared_pool:
        size = xon
    elif eight:
        size = _up(exact + constants.extra_bytes + xon + min(mtu, EIGHT_LANE_BYTES))
    else:
        size = xoff + xon
    return PortHeadroom(xoff_bytes=xoff, xon_bytes=xon, size_bytes=size, method="formula")


def _memory_factor(asic: Asic, constants: Headroom) -> float:
    """How much more memory the smallest packets take than their size, at worst."""
    cell = asic.cell_bytes
    assert cell is not None
    factor = cell / SMALLEST_PACKET_BYTES if cell > 2 * SMALLEST_PACKET_BYTES else 2 * cell / (1 + cell)
    return math.ceil(factor) if constants.worst_case_factor == "ceil" else factor


def _occupancy(small: float, factor: float) -> float:
    """Memory taken by a byte of traffic, if this share of the packets is small."""
    mean_bytes = small * SMALLEST_PACKET_BYTES + (1 - small) * LOSSLESS_MTU_BYTES
    by_byte = SMALLEST_PACKET_BYTES / mean_bytes  # as SONiC has it: an upper bound of the small packets' share of bytes
    return 1 - by_byte + by_byte * factor


def _peer_bytes(constants: Headroom, speed: float) -> float:
    """What the peer still sends: pause quanta where the standard lists them, else a fixed time."""
    quanta = next((row.quanta for row in constants.pause if row.speed_bits_per_s == speed), None)
    if quanta is not None:
        return quanta * QUANTUM_BYTES
    assert constants.peer_bytes is not None
    return constants.peer_bytes


def _up(count_bytes: float) -> int:
    """Rounded up to the unit of the tables."""
    return math.ceil(count_bytes / ROUNDING_BYTES) * ROUNDING_BYTES


def _looked_up(asic: Asic, rows: Sequence[HeadroomLookup], speed: float, cable_m: float) -> PortHeadroom:
    """The published row; between two lengths a straight line, rounded up to whole cells."""
    of_speed = sorted((row for row in rows if row.speed_bits_per_s == speed), key=lambda row: row.cable_m)
    if not of_speed:
        known = [show(value, BITS_PER_S) for value in sorted({row.speed_bits_per_s for row in rows})]
        raise InputError.one("speed", f"no headroom is published for {asic.label} at {show(speed, BITS_PER_S)}",
                             f"use {one_of(known)}")  # fmt: skip
    longest = of_speed[-1]
    if cable_m > longest.cable_m:
        raise InputError.one(
            "cable", f"{cable_m:g} m: the published headroom of {asic.label} at {show(speed, BITS_PER_S)} ends at "
            f"{longest.cable_m:g} m", f"use {longest.cable_m:g} m or less")  # fmt: skip
    above = next(row for row in of_speed if row.cable_m >= cable_m)
    below = max((row for row in of_speed if row.cable_m <= cable_m), key=lambda row: row.cable_m, default=above)
    method: Method = "table" if cable_m == above.cable_m else "interpolated"
    xoff = above.xoff_bytes
    if below is not above:
        share = (cable_m - below.cable_m) / (above.cable_m - below.cable_m)
        cell = asic.cell_bytes or 1
        xoff = math.ceil((below.xoff_bytes + share * (above.xoff_bytes - below.xoff_bytes)) / cell) * cell
    return PortHeadroom(
        xoff_bytes=xoff,
        xon_bytes=above.xon_bytes or 0,
        size_bytes=above.size_bytes or xoff,
        xon_offset_bytes=above.xon_offset_bytes,
        method=method,
    )
