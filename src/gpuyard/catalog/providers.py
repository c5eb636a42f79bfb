"""Clouds that machines are rented from, and what runs clusters there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.rows import SourceNames
from gpuyard.document.field_types import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudProvider:
    """One cloud; gpuyard creates machines on Google Cloud alone, and deploys to clusters of all."""

    name: str
    label: str
    source: SourceNames
    kubernetes: Annotated[str, Doc("its managed Kubernetes; empty: none")] = ""
    slurm: Annotated[str, Doc("its Slurm; empty: none")] = ""
    note: str = ""
