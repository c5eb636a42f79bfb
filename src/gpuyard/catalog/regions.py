"""Regions of a provider, with or without known prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.rows import SourceNames
from gpuyard.document.field_types import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One region of a provider."""

    name: str
    provider: str
    source: SourceNames
    place: Annotated[str, Doc("city or country, in the provider's words")] = ""
    note: str = ""
