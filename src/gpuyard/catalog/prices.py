"""Hourly prices with dates, by provider, region and machine.

A monthly price of a list is divided by 730 hours.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import HourlyPrice, SourceNames
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.units import COUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a machine type in a region on a date; named provider/region/machine."""

    name: str
    provider: str
    region: str
    machine: Annotated[
        str,
        Doc("a name under machines where the catalog has it; a chip if only chips are priced"),
    ]
    date: datetime.date
    source: SourceNames
    zones: Annotated[
        tuple[str, ...], Doc("zones of the region that offer the machine; empty: not known")
    ] = ()
    covers: Annotated[
        Literal["machine", "accelerators", "host"],
        Doc("machine: everything; accelerators: without the host; host: without its accelerators"),
    ] = "machine"
    chip: Annotated[str | None, Doc("accelerator of a machine that is not under machines")] = None
    chip_count: Annotated[float, COUNT, AtLeast(0)] = 0
    on_demand_usd_per_hour: HourlyPrice | None = None
    spot_usd_per_hour: HourlyPrice | None = None
    committed_1y_usd_per_hour: Annotated[
        HourlyPrice | None, Doc("monthly price divided by 730 hours")
    ] = None
    committed_3y_usd_per_hour: Annotated[
        HourlyPrice | None, Doc("monthly price divided by 730 hours")
    ] = None
    includes_local_ssd: bool = False
    local_ssd_usd_per_hour: Annotated[
        HourlyPrice | None, Doc("attached SSD, if the price excludes it")
    ] = None
    on_demand_can_be_created: Annotated[bool, Doc("false: listed, but not available on demand")] = (
        True
    )
    note: str = ""
