"""Regions: the places where a provider has machines, whether their prices are known or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.rows import SourceNames
from gpuyard.document import Doc

__all__ = ["Region"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One region of a provider."""

    name: str
    provider: str
    source: SourceNames
    place: Annotated[str, Doc("the city or country, as the provider calls it")] = ""
    note: str = ""
