"""A planned service: replicas, batching, latencies, rates, cost, commands, autoscaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc, FormerName


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyStats:
    """A latency over all requests."""

    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: Annotated[float, Doc("0 in plans of earlier versions")] = 0.0
    p99_s: float
    error_ratio: Annotated[float, Doc("80 % prediction interval, from published runs")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCommand:
    """The serving engine and the commands that start one replica."""

    name: str
    label: str
    command: Annotated[tuple[str, ...], Doc("one line per machine of the replica")]
    note: str = ""
    checkpoint: Annotated[str, Doc("repository of weights that it loads; empty: a model file")] = ""
    gated: Annotated[bool, Doc("the repository needs an accepted licence and a token")] = False
    load_bytes: Annotated[float, Doc("bytes to download and load at start")] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    """Minimum and maximum number of replicas, and the metric to scale on."""

    min_replicas: Annotated[int, FormerName("least_replicas")]
    max_replicas: Annotated[int, FormerName("most_replicas")]
    metric: str
    target: Annotated[float, Doc("value of the metric per replica; above it, add a replica")]
    requests_per_s: Annotated[float, Doc("per replica at the target")]
    start_s: Annotated[
        float | None, Doc("from the decision to the first response; null: unknown")
    ] = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillPool:
    """Prefill replicas, which transfer KV caches to the decode replicas (disaggregated serving)."""

    replicas: int
    chips_per_replica: float
    tp: int = 1
    ep: int = 1
    attention_dp: int = 1
    max_sequences_count: Annotated[
        int,
        FormerName("most_sequences_count"),
        Doc("maximum concurrent sequences per replica (max_num_seqs)"),
    ]
    budget_tokens: Annotated[int, Doc("maximum tokens per step (max_num_batched_tokens)")]
    prefill_s: Annotated[
        float, FormerName("prompt_s"), Doc("prefill of a prompt of mean length, without a queue")
    ]
    kv_transfer_s: Annotated[
        float, FormerName("handover_s"), Doc("KV-cache transfer to a decode replica")
    ]
    engine: Annotated[EngineCommand, Doc("commands of one prefill replica")]
    router: Annotated[str, Doc("command of the router in front of both pools")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that meets the load."""

    replicas: int
    spare_replicas: Annotated[int, Doc("of those, redundancy for the time that others are down")]
    chips_per_replica: float
    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1
    weights: Annotated[str, Doc("weight dtype")]
    kv: Annotated[str, Doc("KV-cache dtype; empty without a KV cache")] = ""
    batch_count: Annotated[float, Doc("mean batch size per replica, in sequences or samples")]
    max_sequences_count: Annotated[
        int,
        FormerName("most_sequences_count"),
        Doc("maximum concurrent sequences per replica (max_num_seqs)"),
    ]
    budget_tokens: Annotated[int, Doc("maximum tokens per step; 0 for single-pass models")] = 0
    ttft: Annotated[
        LatencyStats | None, Doc("time to first token; null for single-pass models")
    ] = None
    tpot: Annotated[LatencyStats | None, Doc("time per output token after the first")] = None
    e2e: Annotated[LatencyStats, Doc("end-to-end latency")]
    simulated: Annotated[bool, Doc("true: simulated under load; false: closed form")]
    requests_per_s: float
    output_tokens_per_s: float
    tokens_per_s_per_chip: Annotated[float, Doc("output tokens (samples) per second per chip")]
    tokens_per_s_per_user: Annotated[float, Doc("decode speed of one user (tok/s/user)")]
    rate_error_ratio: Annotated[float, Doc("80 % prediction interval of rates")]
    usd_per_million_tokens: Annotated[
        float | None, Doc("input and output tokens; samples for single-pass models")
    ] = None
    usd_per_million_output_tokens: float | None = None
    joules_per_token: Annotated[float | None, Doc("per output token or sample")] = None
    engine: EngineCommand
    autoscaling: Autoscaling
    prefill: Annotated[
        PrefillPool | None,
        Doc("prefill pool of disaggregated serving; `replicas` then only decode"),
    ] = None
    risks: Annotated[
        tuple[str, ...],
        FormerName("doubts"),
        Doc("targets that may be missed within wide error bars"),
    ] = ()
    serverless: Annotated[bool, Doc("the cheapest bill is for instances that scale to zero")] = (
        False
    )


def layout_text(tp: int, pp: int, ep: int, attention_dp: int) -> str:
    """Format a replica layout: `TP8 EP8`."""
    sizes = (("TP", tp), ("PP", pp), ("EP", ep), ("DP", attention_dp))
    return " ".join(f"{name}{size}" for name, size in sizes if size > 1) or "TP1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """One configuration on the curve of interactivity against throughput, in closed form."""

    chip: str
    tp: int
    pp: int
    ep: int
    attention_dp: int
    weights: str
    kv: str
    engine: str
    sequences_count: Annotated[float, Doc("concurrent sequences per replica")]
    tokens_per_s_per_chip: float
    tokens_per_s_per_user: float
    on_pareto_front: Annotated[
        bool, FormerName("on_front"), Doc("on the Pareto front of all chips")
    ] = False

    @property
    def layout(self) -> str:
        return layout_text(self.tp, self.pp, self.ep, self.attention_dp)
