"""Transceivers and cables with part numbers, power and prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import LinkSpeed, SourceNames, Watts
from gpuyard.document.field_types import AtLeast, Doc

OpticUse = Literal["switch", "nic", "switch-nic", "switch-switch", "fibre"]
Medium = Literal["copper", "multimode", "single-mode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpticLength:
    """The part number of one length."""

    cable_m: float
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Optic:
    """A transceiver for ports of switches or NICs, a copper cable between such, or a fibre."""

    name: Annotated[str, Doc("the part number; of a cable, without its length")]
    label: str
    vendor: str
    use: OpticUse
    medium: Medium
    source: SourceNames
    port_bits_per_s: Annotated[
        LinkSpeed | None, Doc("of the switch or NIC port it fills; null for a fibre")
    ] = None
    nic_bits_per_s: Annotated[
        LinkSpeed | None, Doc("of the NIC ports at the other end of a splitter cable")
    ] = None
    switches: Annotated[tuple[str, ...], Doc("switches whose ports it fits; empty: any")] = ()
    reach_m: float | None = None
    fibre_count: Annotated[int, AtLeast(1), Doc("fibre cables per transceiver")] = 1
    lengths: Annotated[tuple[OpticLength, ...], Doc("part numbers by length")] = ()
    power_w: Annotated[Watts | None, Doc("of one transceiver, or of one end of a cable")] = None
    price_usd: Annotated[
        float | None, AtLeast(0), Doc("of one; set your own in a catalog layer")
    ] = None
    note: str = ""
