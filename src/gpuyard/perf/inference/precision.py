"""Weight and KV-cache dtypes: bytes per weight, GEMM peak, unquantised parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WeightFormat = Literal[
    "bf16", "fp8", "fp8-block", "int8", "int8-weights", "int4-weights", "mxfp4", "nvfp4"
]
KvFormat = Literal["bf16", "fp8", "int8"]
Peak = Literal["bf16", "fp8", "fp4", "int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightDtype:
    """A weight dtype: bytes in memory, and the peaks its GEMMs can run at, best first."""

    weight_bytes: float  # with scales
    activation_bytes: float
    peaks: tuple[Peak, ...]  # the first one that the chip has


# nvfp4: one byte of scale per 16 weights; mxfp4: one per 32; int4: a 16-bit scale per 128.
# Weight-only dtypes run 16-bit GEMMs. mxfp4 weights multiply fp8 activations where the chip has
# fp4 cores, 16-bit elsewhere (gpt-oss model card).
FORMATS: dict[WeightFormat, WeightDtype] = {
    "bf16": WeightDtype(weight_bytes=2.0, activation_bytes=2.0, peaks=("bf16",)),
    "fp8": WeightDtype(weight_bytes=1.0, activation_bytes=1.0, peaks=("fp8", "int8", "bf16")),
    "fp8-block": WeightDtype(weight_bytes=1.0, activation_bytes=1.0, peaks=("fp8", "bf16")),
    "int8": WeightDtype(weight_bytes=1.0, activation_bytes=1.0, peaks=("int8", "bf16")),
    "int8-weights": WeightDtype(weight_bytes=1.0, activation_bytes=2.0, peaks=("bf16",)),
    "int4-weights": WeightDtype(weight_bytes=0.516, activation_bytes=2.0, peaks=("bf16",)),
    "mxfp4": WeightDtype(weight_bytes=0.531, activation_bytes=1.0, peaks=("bf16",)),
    "nvfp4": WeightDtype(
        weight_bytes=0.5625, activation_bytes=0.5625, peaks=("fp4", "fp8", "bf16")
    ),
}
KV_BYTES: dict[KvFormat, float] = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Quantisation of a checkpoint: weights, attention projections, KV cache."""

    weights: WeightFormat = "bf16"
    attention: WeightFormat | None = None  # attention projections; None: as the other weights
    kv: KvFormat = "bf16"

    @property
    def projections(self) -> WeightFormat:
        return self.attention or self.weights
