"""Types that all catalog rows share: units, and the sources of the numbers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.units import BITS_PER_S, BYTES, BYTES_PER_S, FLOP_PER_S, POWER, PRICE_PER_HOUR

Bytes = Annotated[float, BYTES]
Bandwidth = Annotated[float, BYTES_PER_S]
LinkSpeed = Annotated[float, BITS_PER_S]
FlopRate = Annotated[float, FLOP_PER_S]
HourlyPrice = Annotated[float, PRICE_PER_HOUR]
Watts = Annotated[float, POWER]
SourceNames = Annotated[tuple[str, ...], Doc("names under [sources], the main one first")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Origin of numbers: a page or a file, and the date it was read."""

    name: str
    title: str
    url: str
    date: datetime.date
