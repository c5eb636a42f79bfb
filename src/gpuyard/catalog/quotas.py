"""Quotas of a cloud project: how many accelerators it may have in a region."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.rows import SourceNames
from gpuyard.document.field_types import Doc
from gpuyard.units import COUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota of a project in a region; named provider/region/metric."""

    name: str
    provider: str
    region: str
    metric: Annotated[str, Doc("as the provider names it, such as NVIDIA_H100_GPUS")]
    limit_count: Annotated[float, COUNT]
    used_count: Annotated[float, COUNT]
    date: datetime.date
    source: SourceNames
    note: str = ""

    @property
    def free_count(self) -> float:
        """What can still be created."""
        return max(0.0, self.limit_count - self.used_count)
