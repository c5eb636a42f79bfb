"""What every row of the catalog has: a name, and the sources that its numbers were read from."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.units import BITS_PER_S, BYTES, BYTES_PER_S, FLOP_PER_S, POWER, PRICE_PER_HOUR

__all__ = ["Bandwidth", "Bytes", "FlopRate", "HourlyPrice", "LinkSpeed", "Source", "SourceNames", "Watts"]

Bytes = Annotated[float, BYTES]
Bandwidth = Annotated[float, BYTES_PER_S]
LinkSpeed = Annotated[float, BITS_PER_S]
FlopRate = Annotated[float, FLOP_PER_S]
HourlyPrice = Annotated[float, PRICE_PER_HOUR]
Watts = Annotated[float, POWER]
SourceNames = Annotated[tuple[str, ...], Doc("names under [sources], the main one first")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where numbers come from: a page or a file, and the day of the reading."""

    name: str
    title: str
    url: str
    date: datetime.date
