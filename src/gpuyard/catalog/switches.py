"""Switches and their ASICs: ports, speeds, buffers, cells and PFC headroom constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import Bytes, LinkSpeed, SourceNames, Watts
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.units import BYTES, DURATION


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseResponse:
    """Time a peer at this speed keeps sending after a PFC pause, in quanta of 64 bytes."""

    speed_bits_per_s: LinkSpeed
    quanta: Annotated[int, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Constants of the open PFC headroom formula, for ASICs that follow it."""

    pipeline_bytes: Annotated[
        float, BYTES, Doc("bytes in the pipeline after the threshold; xon offset")
    ]
    mac_phy_bytes: Annotated[float, BYTES]
    eight_lane_pipeline_bytes: Annotated[
        float | None, BYTES, Doc("the same for ports with eight lanes")
    ] = None
    peer_bytes: Annotated[float | None, BYTES, Doc("peer response if no quanta are listed")] = None
    pause: tuple[PauseResponse, ...] = ()
    tile_s: Annotated[float, DURATION, Doc("internal crossing time, at line rate")] = 0.0
    extra_bytes: Annotated[float, BYTES, Doc("added to xoff for the ASIC's accounting")] = 0.0
    worst_case_factor: Annotated[
        Literal["exact", "ceil"], Doc("rounding of the small-packet factor")
    ] = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomLookup:
    """A published headroom value, for ASICs without a public formula."""

    speed_bits_per_s: LinkSpeed
    cable_m: float
    xoff_bytes: Annotated[int, BYTES]
    size_bytes: Annotated[
        int | None, BYTES, Doc("reserved for the priority group, in addition to shared headroom")
    ] = None
    xon_bytes: Annotated[int | None, BYTES] = None
    xon_offset_bytes: Annotated[int | None, BYTES] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asic:
    """A switch ASIC."""

    name: str
    label: str
    vendor: str
    source: SourceNames
    capacity_bits_per_s: LinkSpeed | None = None
    buffer_bytes: Annotated[Bytes | None, Doc("packet buffer that a switch OS can allocate")] = None
    cell_bytes: Annotated[int | None, BYTES, AtLeast(1), Doc("allocation unit of the buffer")] = (
        None
    )
    headroom: Headroom | None = None
    headroom_lookup: Annotated[
        tuple[HeadroomLookup, ...], Doc("one vendor's table for switches with this chip")
    ] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch model."""

    name: str
    label: str
    vendor: str
    port_count: Annotated[int, AtLeast(1)]
    port_bits_per_s: Annotated[LinkSpeed, Doc("maximum speed of a port")]
    os: Annotated[tuple[str, ...], Doc("supported switch OSes, such as junos or sonic")]
    roles: tuple[Literal["leaf", "spine", "core"], ...]
    source: SourceNames
    technology: Literal["ethernet", "infiniband"] = "ethernet"
    asic: Annotated[str | None, Doc("a name under asics")] = None
    breakouts: Annotated[tuple[int, ...], Doc("numbers of links a port can be split into")] = (1,)
    speeds_bits_per_s: Annotated[
        tuple[LinkSpeed, ...], Doc("speeds of a port or its breakouts")
    ] = ()
    uplink_port_count: Annotated[
        int, AtLeast(0), Doc("separate ports toward other switches, after those of port_count")
    ] = 0
    uplink_port_bits_per_s: LinkSpeed | None = None
    headroom_pool_bytes: Annotated[
        Bytes | None, Doc("shared headroom of all ports in the vendor's profile")
    ] = None
    headroom_lookup: Annotated[
        tuple[HeadroomLookup, ...], Doc("table of this model; takes precedence over its ASIC's")
    ] = ()
    chassis: bool = False
    ports_per_card: Annotated[int | None, AtLeast(1), Doc("for a chassis: ports per line card")] = (
        None
    )
    power_w: Annotated[Watts | None, Doc("the note states the load")] = None
    power_includes_optics: Annotated[bool, Doc("power_w is with transceivers in all ports")] = False
    rack_units: Annotated[int | None, AtLeast(1)] = None
    ports_per_cage: Annotated[int, AtLeast(1), Doc("ports that share a transceiver")] = 1
    part: Annotated[str, Doc("manufacturer's part number, with front-to-rear airflow")] = ""
    price_usd: Annotated[
        float | None, AtLeast(0), Doc("of one; set your own in a catalog layer")
    ] = None
    aliases: tuple[str, ...] = ()
    note: str = ""
