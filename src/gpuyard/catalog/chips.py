"""Accelerators and CPUs: dense peak FLOP/s, memory, scale-up link, power and frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import Bandwidth, Bytes, FlopRate, SourceNames, Watts
from gpuyard.document.field_types import AtLeast, Doc

ChipKind = Literal["gpu", "tpu", "npu", "cpu"]
Framework = Literal["cuda", "rocm", "xla", "pytorch", "pytorch-xla", "jax-xla"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Dense FLOP/s by dtype; None: not supported or unknown."""

    fp64_flop_per_s: FlopRate | None = None
    fp64_tensor_flop_per_s: FlopRate | None = None
    fp32_flop_per_s: FlopRate | None = None
    tf32_flop_per_s: FlopRate | None = None
    bf16_flop_per_s: FlopRate | None = None
    fp16_flop_per_s: FlopRate | None = None
    fp8_flop_per_s: FlopRate | None = None
    fp4_flop_per_s: FlopRate | None = None
    int8_flop_per_s: FlopRate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """The link between chips of one scale-up domain: NVLink, xGMI, ICI."""

    technology: str
    bytes_per_s: Annotated[Bandwidth, Doc("one direction, per chip, all links together")]
    topology: Literal["switch", "mesh", "torus-2d", "torus-3d"]
    domain_count: Annotated[int | None, AtLeast(1), Doc("chips in the largest domain")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One accelerator, or one CPU socket of the largest machine of the catalog."""

    name: str
    label: str
    vendor: str
    architecture: str
    kind: ChipKind
    dense: Rates
    memory_bytes: Annotated[
        Bytes, Doc("for a CPU: per socket of the largest machine of the catalog")
    ]
    memory_bytes_per_s: Bandwidth
    memory_type: str
    frameworks: tuple[Framework, ...]
    source: SourceNames
    core_count: Annotated[int | None, AtLeast(1), Doc("for a CPU; rates are divided by cores")] = (
        None
    )
    scale_up: ScaleUp | None = None
    power_w: Watts | None = None
    best_measured: Annotated[Rates | None, Doc("highest measured GEMM throughput")] = None
    aliases: tuple[str, ...] = ()
    note: Annotated[str, Doc("conflicts between sources and how they were resolved")] = ""
