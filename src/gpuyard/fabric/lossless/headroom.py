"""PFC headroom: the buffer for packets that arrive at a port after it has sent XOFF.

Spectrum follows an open formula (SONiC, `buffer_headroom_mellanox.lua`). For other chips only
tables are published; between two cable lengths they are interpolated linearly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.switches import Asic, Headroom, HeadroomLookup, Switch
from gpuyard.errors import InputError, Problem, choices_text
from gpuyard.units import BITS_PER_S, BYTES, bytes_from_bits, show

Method = Literal["formula", "table", "interpolated"]

SIGNAL_M_PER_S = 198e6  # in fibre and copper, as in SONiC
SMALLEST_PACKET_BYTES = 64
QUANTUM_BYTES = 64  # 512 bit times
ROUNDING_BYTES = 1024
LOSSLESS_MTU_BYTES = 1024  # RDMA packet size in SONiC's LOSSLESS_TRAFFIC_PATTERN
COMPENSATION_BYTES = 2048  # added for few small packets without a shared pool
# SONiC's default MTU, which the shipped tables add for eight-lane ports, although their XOFF
# assumes 9,216.
EIGHT_LANE_BYTES = 9100
# Speeds of eight-lane ports: 50 Gb/s lanes in Spectrum-3, 100 Gb/s lanes in Spectrum-4 and -5.
EIGHT_LANE_BITS_PER_S = {"spectrum-3": 400e9, "spectrum-4": 800e9, "spectrum-5": 800e9}


@dataclass(frozen=True, slots=True, kw_only=True)
class PortHeadroom:
    """The headroom of one lossless priority of one port."""

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
    """Return the headroom of a port; `table` is the switch's own and overrides its ASIC's."""
    if problems := list(_problems(asic, speed_bits_per_s, cable_m, mtu_bytes, small_packet_ratio)):
        raise InputError(problems)
    rows = tuple(table) or asic.headroom_lookup
    if rows:
        return _from_table(asic, rows, speed_bits_per_s, cable_m)
    eight = lanes == 8 if lanes else speed_bits_per_s == EIGHT_LANE_BITS_PER_S.get(asic.name)
    return _from_formula(
        asic, speed_bits_per_s, cable_m, mtu_bytes, small_packet_ratio, eight, shared_pool
    )


def is_published(switch: Switch, asic: Asic, speed_bits_per_s: float) -> bool:
    """Return whether a formula, or a table with this speed, is published for a switch."""
    rows = switch.headroom_lookup or asic.headroom_lookup
    return (
        any(row.speed_bits_per_s == speed_bits_per_s for row in rows)
        if rows
        else asic.headroom is not None
    )


def headroom_of(
    switch: Switch, asic: Asic, speed_bits_per_s: float, cable_m: float, mtu_bytes: int = 9216
) -> PortHeadroom:
    """Return the headroom of a port in the worst case of only small packets."""
    return headroom(asic, speed_bits_per_s, cable_m, mtu_bytes, table=switch.headroom_lookup)


def _problems(
    asic: Asic, speed: float, cable_m: float, mtu: int, small: float
) -> Iterator[Problem]:
    if asic.headroom is None and not asic.headroom_lookup:
        yield Problem(
            where="asic",
            what=f"no headroom is published for {asic.label}",
            fix="measure it, or ask the vendor",
        )
    if not speed > 0 or speed > (asic.capacity_bits_per_s or math.inf):
        yield Problem(
            where="speed",
            what=f"{show(speed, BITS_PER_S)} is not a port speed of {asic.label}",
            fix="use the speed of the port, such as 400Gbps",
        )
    if not 0 <= cable_m < math.inf:
        yield Problem(
            where="cable",
            what=f"a cable of {cable_m:g} m",
            fix="use a length in metres, such as 40m",
        )
    if mtu < SMALLEST_PACKET_BYTES:
        yield Problem(
            where="mtu",
            what=f"an MTU of {mtu} bytes",
            fix="use the largest frame of the port, such as 9216",
        )
    if not 0 <= small <= 1:
        yield Problem(
            where="small packets",
            what=f"a share of {small * 100:g} %",
            fix="use 0 to 100 %",
        )


def _from_formula(
    asic: Asic, speed: float, cable_m: float, mtu: int, small: float, eight: bool, shared_pool: bool
) -> PortHeadroom:
    constants = asic.headroom
    assert constants is not None
    factor = _memory_factor(asic, constants)
    delay = (
        mtu  # a frame being sent when the pause is due
        + bytes_from_bits(2 * cable_m / SIGNAL_M_PER_S * speed)  # cable round trip
        + constants.mac_phy_bytes  # in MAC and PHY
        + _peer_bytes(constants, speed)  # before the peer stops
        + bytes_from_bits(constants.tile_s * speed)  # crossing the chip
    )
    exact = LOSSLESS_MTU_BYTES + delay * _occupancy(small, factor)
    xoff = _up(exact) + round(constants.extra_bytes)
    if (
        not shared_pool
        and small < 1
        and xoff + COMPENSATION_BYTES < _up(LOSSLESS_MTU_BYTES + delay * factor)
    ):
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
    # Worst-case buffer use of the smallest packets over their size.
    cell = asic.cell_bytes
    assert cell is not None
    factor = (
        cell / SMALLEST_PACKET_BYTES if cell > 2 * SMALLEST_PACKET_BYTES else 2 * cell / (1 + cell)
    )
    return math.ceil(factor) if constants.worst_case_factor == "ceil" else factor


def _occupancy(small: float, factor: float) -> float:
    # Buffer bytes per byte of traffic, if this share of packets is small.
    mean_bytes = small * SMALLEST_PACKET_BYTES + (1 - small) * LOSSLESS_MTU_BYTES
    by_byte = SMALLEST_PACKET_BYTES / mean_bytes  # SONiC's upper bound of the small packets' bytes
    return 1 - by_byte + by_byte * factor


def _peer_bytes(constants: Headroom, speed: float) -> float:
    # What the peer still sends: the standard's pause quanta, else a fixed number of bytes.
    quanta = next((row.quanta for row in constants.pause if row.speed_bits_per_s == speed), None)
    if quanta is not None:
        return quanta * QUANTUM_BYTES
    assert constants.peer_bytes is not None
    return constants.peer_bytes


def _up(count_bytes: float) -> int:
    return math.ceil(count_bytes / ROUNDING_BYTES) * ROUNDING_BYTES


def _from_table(
    asic: Asic, rows: Sequence[HeadroomLookup], speed: float, cable_m: float
) -> PortHeadroom:
    # Between two lengths: linear interpolation, rounded up to whole cells.
    of_speed = sorted(
        (row for row in rows if row.speed_bits_per_s == speed), key=lambda row: row.cable_m
    )
    if not of_speed:
        known = [
            show(value, BITS_PER_S) for value in sorted({row.speed_bits_per_s for row in rows})
        ]
        raise InputError.one(
            "speed",
            f"no headroom is published for {asic.label} at {show(speed, BITS_PER_S)}",
            f"use {choices_text(known)}",
        )
    longest = of_speed[-1]
    if cable_m > longest.cable_m:
        raise InputError.one(
            "cable",
            f"{cable_m:g} m: the published headroom of {asic.label} at"
            f" {show(speed, BITS_PER_S)} ends at {longest.cable_m:g} m",
            f"use at most {longest.cable_m:g} m",
        )
    above = next(row for row in of_speed if row.cable_m >= cable_m)
    below = max(
        (row for row in of_speed if row.cable_m <= cable_m),
        key=lambda row: row.cable_m,
        default=above,
    )
    method: Method = "table" if cable_m == above.cable_m else "interpolated"
    xoff = above.xoff_bytes
    if below is not above:
        share = (cable_m - below.cable_m) / (above.cable_m - below.cable_m)
        cell = asic.cell_bytes or 1
        xoff = (
            math.ceil((below.xoff_bytes + share * (above.xoff_bytes - below.xoff_bytes)) / cell)
            * cell
        )
    return PortHeadroom(
        xoff_bytes=xoff,
        xon_bytes=above.xon_bytes or 0,
        size_bytes=above.size_bytes or xoff,
        xon_offset_bytes=above.xon_offset_bytes,
        method=method,
    )
