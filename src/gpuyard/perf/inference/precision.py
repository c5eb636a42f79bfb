"""Number formats of served models: bytes of a weight, the peak that its products run at, what stays unquantised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FORMATS", "Format", "KvFormat", "Precision", "WeightFormat"]

WeightFormat = Literal["bf16", "fp8", "fp8-block", "int8", "int8-weights", "int4-weights", "mxfp4", "nvfp4"]
KvFormat = Literal["bf16", "fp8", "int8"]
Peak = Literal["bf16", "fp8", "fp4", "int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of weights: what it takes in memory, and the peak its products run at, best first."""

    weight_bytes: float  # with its scales
    activation_bytes: float
    peaks: tuple[Peak, ...]  # the first that the chip has


# nvfp4: a byte of scale for 16 weights, mxfp4: one for 32; int4: a half scale for 128. Weight-only formats multiply
# in 16 bits. mxfp4 weights meet fp8 activations where the chip has fp4 cores, 16 bits elsewhere (gpt-oss model card).
FORMATS: dict[WeightFormat, Format] = {
    "bf16": Format(weight_bytes=2.0, activation_bytes=2.0, peaks=("bf16",)),
    "fp8": Format(weight_bytes=1.0, activation_bytes=1.0, peaks=("fp8", "int8", "bf16")),
    "fp8-block": Format(weight_bytes=1.0, activation_bytes=1.0, peaks=("fp8", "bf16")),
    "int8": Format(weight_bytes=1.0, activation_bytes=1.0, peaks=("int8", "bf16")),
    "int8-weights": Format(weight_bytes=1.0, activation_bytes=2.0, peaks=("bf16",)),
    "int4-weights": Format(weight_bytes=0.516, activation_bytes=2.0, peaks=("bf16",)),
    "mxfp4": Format(weight_bytes=0.531, activation_bytes=1.0, peaks=("bf16",)),
    "nvfp4": Format(weight_bytes=0.5625, activation_bytes=0.5625, peaks=("fp4", "fp8", "bf16")),
}
KV_BYTES: dict[KvFormat, float] = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How a checkpoint is quantised: its products, those of attention where they differ, its cache."""

    weights: WeightFormat = "bf16"
    attention: WeightFormat | None = None  # projections of attention; None: as the rest
    kv: KvFormat = "bf16"

    @property
    def projections(self) -> WeightFormat:
        """The format of attention's projections."""
        return self.attention or self.weights
