"""A simulated service as a value: latencies, distributions and time series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.perf.inference.quantiles import LatencyQuantiles
from gpuyard.plan.inference.replica_config import PrefillConfig
from gpuyard.plan.service import LatencyStats


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyCdf:
    """A cumulative distribution: the fraction of requests that are no slower."""

    name: str
    seconds: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A latency target."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A time series, summed over replicas."""

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
    prefill: Annotated[
        PrefillConfig | None,
        Doc("prefill pool of disaggregated serving; `replicas` then only decode"),
    ] = None
    weights: str
    kv: str
    engine: str
    seed: int
    requests: int
    duration_s: float
    requests_per_s: float
    output_tokens_per_s: float
    total_tokens_per_s: float
    ttft: LatencyStats
    tpot: LatencyStats
    itl: Annotated[LatencyStats, Doc("inter-token latency over all tokens")]
    e2e: LatencyStats
    queued: Annotated[LatencyQuantiles, Doc("queue time, from arrival to admission")]
    preemptions: int
    rate_error_ratio: Annotated[float, Doc("80 % prediction interval of rates")]
    targets: Annotated[tuple[Limit, ...], Doc("latency targets of the file")] = ()
    broken: Annotated[tuple[str, ...], Doc("missed targets of the file")] = ()
    notes: Annotated[
        tuple[str, ...], Doc("about the traffic, and reasons for wide error bars")
    ] = ()
    curves: tuple[LatencyCdf, ...] = ()
    tracks: tuple[Track, ...] = ()
