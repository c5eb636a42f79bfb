"""Switches and the ASICs inside them: ports, speeds, buffer, cells, and the constants of lossless headroom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import Bytes, LinkSpeed, SourceNames, Watts
from gpuyard.document import AtLeast, Doc
from gpuyard.units import BYTES, DURATION

__all__ = ["Asic", "Headroom", "HeadroomLookup", "PauseResponse", "Switch", "SwitchOs"]

SwitchOs = Literal["junos", "sonic", "cumulus", "frr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseResponse:
    """How long a peer at this speed keeps sending after a pause, in quanta of 64 bytes."""

    speed_bits_per_s: LinkSpeed
    quanta: Annotated[int, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Constants of the open headroom formula, for ASICs that follow it; the ASIC's cell size is one of its inputs."""

    pipeline_bytes: Annotated[float, BYTES, Doc("sent by the pipeline after the threshold; xon offset")]
    mac_phy_bytes: Annotated[float, BYTES]
    eight_lane_pipeline_bytes: Annotated[float | None, BYTES, Doc("the same on ports of eight lanes")] = None
    peer_bytes: Annotated[float | None, BYTES, Doc("peer response where no quanta are listed")] = None
    pause: tuple[PauseResponse, ...] = ()
    tile_s: Annotated[float, DURATION, Doc("internal crossing time, counted at line rate")] = 0.0
    extra_bytes: Annotated[float, BYTES, Doc("added to xoff for the ASIC's own accounting")] = 0.0
    worst_case_factor: Annotated[Literal["exact", "ceil"], Doc("whether the small-packet factor is rounded up")] = (
        "exact"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomLookup:
    """One published headroom value, for ASICs without a public formula."""

    speed_bits_per_s: LinkSpeed
    cable_m: float
    xoff_bytes: Annotated[int, BYTES]
    size_bytes: Annotated[int | None, BYTES, Doc("reserved for the priority group, beside the shared headroom")] = None
    xon_bytes: Annotated[int | None, BYTES] = None
    xon_offset_bytes: Annotated[int | None, BYTES] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asic:
    """A switching chip."""

    name: str
    label: str
    vendor: str
    source: SourceNames
    capacity_bits_per_s: LinkSpeed | None = None
    buffer_bytes: Annotated[Bytes | None, Doc("packet memory that a switch OS can hand out")] = None
    cell_bytes: Annotated[int | None, BYTES, AtLeast(1), Doc("the memory is handed out in cells of this size")] = None
    headroom: Headroom | None = None
    headroom_lookup: Annotated[tuple[HeadroomLookup, ...], Doc("one vendor's table for switches with this chip")] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch model that can be bought."""

    name: str
    label: str
    vendor: str
    port_count: Annotated[int, AtLeast(1)]
    port_bits_per_s: Annotated[LinkSpeed, Doc("the fastest speed of a port")]
    os: Annotated[tuple[SwitchOs, ...], Doc("those that gpuyard writes configurations for")]
    roles: tuple[Literal["leaf", "spine", "core"], ...]
    source: SourceNames
    technology: Literal["ethernet", "infiniband"] = "ethernet"
    asic: Annotated[str | None, Doc("a name under asics")] = None
    breakouts: Annotated[tuple[int, ...], Doc("into how many links a port can be split")] = (1,)
    speeds_bits_per_s: Annotated[tuple[LinkSpeed, ...], Doc("speeds a port or its breakouts can run")] = ()
    headroom_pool_bytes: Annotated[Bytes | None, Doc("shared headroom of all ports, in the vendor's own profile")] = (
        None
    )
    headroom_lookup: Annotated[tuple[HeadroomLookup, ...], Doc("this model's own table, before its ASIC's")] = ()
    chassis: bool = False
    ports_per_card: Annotated[int | None, AtLeast(1), Doc("of a chassis: ports on a line card, as named")] = None
    power_w: Annotated[Watts | None, Doc("the note says at what load")] = None
    aliases: tuple[str, ...] = ()
    note: str = ""
