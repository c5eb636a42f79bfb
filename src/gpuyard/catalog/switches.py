"""Switches and the ASICs inside them: ports, speeds, buffer, cells, and the constants of lossless headroom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import Bytes, LinkSpeed, SourceNames, Watts
from gpuyard.document import AtLeast, Doc
from gpuyard.units import BYTES

__all__ = ["Asic", "Headroom", "HeadroomLookup", "PauseResponse", "Switch", "SwitchOs"]

SwitchOs = Literal["junos", "sonic", "cumulus", "frr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseResponse:
    """How long a peer at this speed keeps sending after a pause, in quanta of 64 bytes."""

    speed_bits_per_s: LinkSpeed
    quanta: Annotated[int, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Constants of the open headroom formula, for ASICs that follow it."""

    cell_bytes: Annotated[int, BYTES, AtLeast(1)]
    pipeline_bytes: Annotated[float, BYTES, Doc("sent by the pipeline after the threshold; xon offset")]
    mac_phy_bytes: Annotated[float, BYTES]
    peer_bytes: Annotated[float | None, BYTES, Doc("peer response where no quanta are listed")] = None
    pause: tuple[PauseResponse, ...] = ()
    tile_ns: Annotated[float, Doc("internal crossing time counted at line rate")] = 0.0
    worst_case_factor: Annotated[Literal["exact", "ceil"], Doc("whether the small-packet factor is rounded up")] = (
        "exact"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomLookup:
    """One published headroom value, for ASICs without a public formula."""

    speed_bits_per_s: LinkSpeed
    cable_m: float
    xoff_bytes: Annotated[int, BYTES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asic:
    """A switching chip."""

    name: str
    label: str
    vendor: str
    source: SourceNames
    capacity_bits_per_s: LinkSpeed | None = None
    buffer_bytes: Bytes | None = None
    headroom: Headroom | None = None
    headroom_lookup: tuple[HeadroomLookup, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch model that can be bought."""

    name: str
    label: str
    vendor: str
    port_count: Annotated[int, AtLeast(1)]
    port_bits_per_s: Annotated[LinkSpeed, Doc("the fastest speed of a port")]
    os: tuple[SwitchOs, ...]
    roles: tuple[Literal["leaf", "spine", "core"], ...]
    source: SourceNames
    asic: Annotated[str | None, Doc("a name under asics")] = None
    breakouts: Annotated[tuple[int, ...], Doc("into how many links a port can be split")] = (1,)
    speeds_bits_per_s: Annotated[tuple[LinkSpeed, ...], Doc("speeds a port or its breakouts can run")] = ()
    chassis: bool = False
    power_w: Watts | None = None
    note: str = ""
