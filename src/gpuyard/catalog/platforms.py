"""The ways to provision machines: how much control, who manages, how it scales, what it suits and cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import SourceNames
from gpuyard.document import Doc

__all__ = ["Platform", "PlatformName", "Task"]

PlatformName = Literal["compute-engine", "gke", "slurm", "vertex-ai", "cloud-run"]
Task = Literal["pretraining", "finetuning", "inference", "graphics", "hpc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """One provisioning platform, with the provider's published guidance."""

    name: str
    label: str
    variants: Annotated[tuple[str, ...], Doc("products that give it, e.g. Cluster Director, Cluster Toolkit")]
    control: Literal["most", "high", "medium", "low"]
    you_manage: tuple[str, ...]
    it_manages: tuple[str, ...]
    scaling: str
    limits: tuple[str, ...]
    suits: tuple[Task, ...]
    guidance: Annotated[str, Doc("the provider's words, condensed")]
    source: SourceNames
    note: str = ""
