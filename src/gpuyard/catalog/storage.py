"""Storage services: throughput by size, limits and uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import Bandwidth, Bytes, SourceNames
from gpuyard.document.field_types import Doc
from gpuyard.units import DURATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """One storage service, or one performance tier of it."""

    name: str
    label: str
    service: Annotated[str, Doc("the product, shared by its tiers and sizes")]
    kind: Literal["parallel-file", "object", "object-cache", "block", "file", "local"]
    scope: Literal["machine", "zonal", "regional", "multi-regional"]
    suits: Annotated[tuple[str, ...], Doc("recommended uses")]
    source: SourceNames
    read_bytes_per_s_per_tib: Annotated[
        Bandwidth | None, Doc("scales with the provisioned size")
    ] = None
    write_bytes_per_s_per_tib: Bandwidth | None = None
    max_read_bytes_per_s: Bandwidth | None = None
    max_write_bytes_per_s: Bandwidth | None = None
    min_bytes: Bytes | None = None
    max_bytes: Bytes | None = None
    step_bytes: Annotated[Bytes | None, Doc("increment of the size")] = None
    latency_s: Annotated[float | None, DURATION, Doc("the provider's upper bound")] = None
    read_iops_per_tib: float | None = None
    limits: tuple[str, ...] = ()
    note: str = ""
