"""A service that was simulated, as a value: percentiles, distributions, and what happened over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.plan.inference.configured import Readers
from gpuyard.plan.inference.replica import Quantiles
from gpuyard.plan.service import Spread

__all__ = ["Curve", "Limit", "ServingRun", "Track"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A cumulative distribution: the share of requests that are no slower."""

    name: str
    seconds: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A latency that was asked for."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Something over time, summed over replicas."""

    name: str
    at_s: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRun:
    """A simulated service."""

    workload: str
    machine: str
    replicas: int
    chips_per_replica: int
    tp: int
    pp: int
    ep: int
    attention_dp: int
    prefill: Annotated[Readers | None, Doc("replicas that read prompts, where `replicas` only write")] = None
    weights: str
    kv: str
    engine: str
    seed: int
    requests: int
    duration_s: float
    requests_per_s: float
    output_tokens_per_s: float
    total_tokens_per_s: float
    ttft: Spread
    tpot: Spread
    itl: Annotated[Spread, Doc("between two tokens of an answer, over all tokens")]
    e2e: Spread
    queued: Annotated[Quantiles, Doc("from arrival to admission")]
    preemptions: int
    rate_error_ratio: Annotated[float, Doc("of rates: four in five predictions are within this")]
    targets: Annotated[tuple[Limit, ...], Doc("latencies that the file asks for")] = ()
    broken: Annotated[tuple[str, ...], Doc("targets of the file that are not kept")] = ()
    notes: Annotated[tuple[str, ...], Doc("of the traffic, and why error bars are wide")] = ()
    curves: tuple[Curve, ...] = ()
    tracks: tuple[Track, ...] = ()
