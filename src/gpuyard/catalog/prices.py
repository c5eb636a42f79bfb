"""Prices, dated: what an hour costs by provider, region and machine."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.rows import HourlyPrice, SourceNames
from gpuyard.document import Doc

__all__ = ["Price"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of one machine type in one region on one day; named provider/region/machine."""

    name: str
    provider: str
    region: str
    machine: Annotated[str, Doc("a name under machines where the catalog has it")]
    date: datetime.date
    source: SourceNames
    on_demand_usd_per_hour: HourlyPrice | None = None
    spot_usd_per_hour: HourlyPrice | None = None
    committed_1y_usd_per_hour: HourlyPrice | None = None
    committed_3y_usd_per_hour: HourlyPrice | None = None
    includes_local_ssd: bool = False
    on_demand_can_be_created: Annotated[bool, Doc("false: a list price that cannot be had on demand")] = True
    note: str = ""
