"""Provisioning platforms: control, managed parts, scaling, suitable tasks and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import SourceNames
from gpuyard.document.field_types import Doc

PlatformName = Literal["compute-engine", "gke", "slurm", "vertex-ai", "cloud-run"]
TaskName = Literal["pretraining", "finetuning", "inference", "graphics", "hpc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformInfo:
    """One provisioning platform, with the provider's published guidance."""

    name: str
    label: str
    variants: Annotated[
        tuple[str, ...], Doc("products, such as Cluster Director and Cluster Toolkit")
    ]
    control: Literal["most", "high", "medium", "low"]
    you_manage: tuple[str, ...]
    it_manages: tuple[str, ...]
    scaling: str
    limits: tuple[str, ...]
    suits: tuple[TaskName, ...]
    guidance: Annotated[str, Doc("the provider's guidance, condensed")]
    source: SourceNames
    note: str = ""
