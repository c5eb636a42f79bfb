"""Prices, dated: what an hour costs by provider, region and machine. A month that a list prints is 730 hours."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import HourlyPrice, SourceNames
from gpuyard.document import AtLeast, Doc
from gpuyard.units import COUNT

__all__ = ["Price"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of one machine type in one region on one day; named provider/region/machine."""

    name: str
    provider: str
    region: str
    machine: Annotated[str, Doc("a name under machines where the catalog has it; a chip where chips alone are priced")]
    date: datetime.date
    source: SourceNames
    covers: Annotated[
        Literal["machine", "accelerators", "host"],
        Doc("machine: all of it; accelerators: the host costs extra; host: a machine before accelerators are attached"),
    ] = "machine"
    chip: Annotated[str | None, Doc("the accelerator, where the machine is not under machines")] = None
    chip_count: Annotated[float, COUNT, AtLeast(0)] = 0
    on_demand_usd_per_hour: HourlyPrice | None = None
    spot_usd_per_hour: HourlyPrice | None = None
    committed_1y_usd_per_hour: Annotated[HourlyPrice | None, Doc("the monthly price over 730 hours")] = None
    committed_3y_usd_per_hour: Annotated[HourlyPrice | None, Doc("the monthly price over 730 hours")] = None
    includes_local_ssd: bool = False
    local_ssd_usd_per_hour: Annotated[HourlyPrice | None, Doc("the attached SSD, where the price leaves it out")] = None
    on_demand_can_be_created: Annotated[bool, Doc("false: a list price that cannot be had on demand")] = True
    note: str = ""
