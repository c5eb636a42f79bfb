"""What the provider recommends for a kind of work: machine series, platforms, ways to buy, storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.platforms import PlatformName, Task
from gpuyard.catalog.rows import SourceNames
from gpuyard.document import Doc

__all__ = ["ConsumptionOption", "Guidance"]

ConsumptionOption = Literal[
    "on_demand", "spot", "flex_start", "on_demand_reservation", "calendar_reservation", "future_reservation"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """The provider's recommendation for one kind of work. An empty list: the provider names none."""

    name: str
    task: Task
    scope: Annotated[str, Doc("what the provider counts as this kind of work")]
    series: Annotated[tuple[str, ...], Doc("as machines name them, in the provider's order")]
    source: SourceNames
    orchestrators: tuple[PlatformName, ...] = ()
    consumption: tuple[ConsumptionOption, ...] = ()
    storage: Annotated[tuple[str, ...], Doc("services under storage, the first choice first")] = ()
    note: str = ""
