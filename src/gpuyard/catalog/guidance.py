"""Provider recommendations per kind of work: machine series, platforms, consumption, storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.platforms import PlatformName, TaskName
from gpuyard.catalog.rows import SourceNames
from gpuyard.document.field_types import Doc

ConsumptionOption = Literal[
    "on_demand",
    "spot",
    "flex_start",
    "on_demand_reservation",
    "calendar_reservation",
    "future_reservation",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """The provider's recommendation for one kind of work; an empty list means none is named."""

    name: str
    task: TaskName
    scope: Annotated[str, Doc("the provider's description of this kind of work")]
    series: Annotated[tuple[str, ...], Doc("machine series in the provider's order")]
    source: SourceNames
    orchestrators: tuple[PlatformName, ...] = ()
    consumption: tuple[ConsumptionOption, ...] = ()
    storage: Annotated[tuple[str, ...], Doc("services under storage, first choice first")] = ()
    note: str = ""
