"""Calibration of the serving model: fitted effects, and the constants that follow from them."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuyard.perf.inference.constants import read_constants, values_of

PATH = Path(__file__).parent / "data" / "calibration.toml"
Kernel = Literal["gemm", "experts"]
ChipQuantity = Literal[
    "stream", "expert_stream", "kv", "kv_group", "latent", "latent_rate", "attention",
    "across_rate", "bus_latency", "bus_rate", "layer_us", "expert_layer_us", "latent_layer_us",
]  # fmt: skip
EngineQuantity = Literal[
    "gemm", "layer_us", "eager_layer_us", "eager_expert_us", "reduce", "host_us",
    "host_sequence_us", "host_token_us", "request_us", "request_token_us", "poll_steps", "passes",
]  # fmt: skip
LinkQuantity = Literal["latency_us", "ratio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCalibration:
    """Constants of the serving model by name: fitted, or the priors."""

    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def chip(self, kernels: str, quantity: ChipQuantity) -> float:
        """Return a constant of a group of chips."""
        return self.values[f"{kernels}.{quantity}"]

    def matmul(self, kernels: str, kernel: Kernel, dtype: str) -> float:
        """Return GEMM efficiency, sustained over peak FLOP/s, on a group of chips."""
        return self.values[f"{kernels}.{kernel}.{dtype}"]

    def engine(self, name: str, quantity: EngineQuantity) -> float:
        """Return a constant of an engine."""
        return self.values[f"{name}.{quantity}"]

    def link(self, name: str, quantity: LinkQuantity) -> float:
        """Return a constant of a link."""
        return self.values[f"{name}.{quantity}"]

    def replaced(self, values: Mapping[str, float]) -> ServingCalibration:
        """Return a copy with some values replaced."""
        return ServingCalibration(values={**self.values, **values})


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedEffect:
    """A fitted factor on constants, and the standard error of its logarithm."""

    name: str
    factor: float
    error: float


@functools.cache
def read_effects() -> tuple[FittedEffect, ...]:
    """Return the shipped effects; every fitted number of the step-time model is one of them."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))["effect"]
    return tuple(
        FittedEffect(name=name, factor=float(cell["factor"]), error=float(cell["error"]))
        for name, cell in table.items()
    )


@functools.cache
def read_margins() -> Mapping[str, float]:
    """Return the MLPerf Server margins, fitted after the effects to the simulated runs."""
    table: dict[str, float] = tomllib.loads(PATH.read_text(encoding="utf-8"))["margin"]
    return table


@functools.cache
def read_calibration() -> ServingCalibration:
    """Return the shipped constants: priors times effects."""
    factors = {effect.name: effect.factor for effect in read_effects()}
    return ServingCalibration(values=dict(values_of(read_constants(), factors, read_margins())))


@functools.cache
def read_priors() -> ServingCalibration:
    """Return the priors of the constants."""
    return ServingCalibration(values=dict(values_of(read_constants(), {}, {})))
