"""What an option serves: replicas, batching, latencies, rates, price of a token, the engine's command, scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc

__all__ = ["Autoscaling", "Engine", "FrontierPoint", "PrefillPool", "Service", "Spread"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A latency over all requests."""

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    error_ratio: Annotated[float, Doc("how far off predictions of published runs were; four in five are within this")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The server program and how to start one replica."""

    name: str
    label: str
    command: Annotated[tuple[str, ...], Doc("one line a machine of the replica")]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    """Bounds on the number of replicas, and what to scale on."""

    least_replicas: int
    most_replicas: int
    metric: str
    target: Annotated[float, Doc("of the metric, in each replica: above it, add one")]
    requests_per_s: Annotated[float, Doc("that one replica takes at the target")]
    start_s: Annotated[float | None, Doc("from the decision to the first answer; none: no source tells")] = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillPool:
    """Replicas that only read prompts and hand their caches to those that write."""

    replicas: int
    chips_per_replica: float
    tp: int = 1
    ep: int = 1
    attention_dp: int = 1
    most_sequences_count: Annotated[int, Doc("the most that the engine is told to run at once in one replica")]
    budget_tokens: Annotated[int, Doc("the most tokens of one step")]
    prompt_s: Annotated[float, Doc("to read a prompt of mean length alone")]
    handover_s: Annotated[float, Doc("from there to its cache in a replica that writes")]
    engine: Annotated[Engine, Doc("the command lines of one of these replicas")]
    router: Annotated[str, Doc("the command line between clients and both pools")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One way to serve the model at the load that was asked for."""

    replicas: int
    spare_replicas: Annotated[int, Doc("of those, kept for the time that others are down")]
    chips_per_replica: float
    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1
    weights: Annotated[str, Doc("number format of the weights")]
    kv: Annotated[str, Doc("number format of the key-value cache; empty where there is none")] = ""
    batch_count: Annotated[float, Doc("sequences or samples that one replica works on at once, on average")]
    most_sequences_count: Annotated[int, Doc("the most that the engine is told to run at once in one replica")]
    budget_tokens: Annotated[int, Doc("the most tokens of one step; 0 where there are none")] = 0
    ttft: Annotated[Spread | None, Doc("time to the first token; none for models that answer in one pass")] = None
    tpot: Annotated[Spread | None, Doc("time of each token after the first")] = None
    e2e: Annotated[Spread, Doc("time to the whole answer")]
    simulated: Annotated[bool, Doc("true: request by request; false: closed form, no percentiles under load")]
    requests_per_s: float
    output_tokens_per_s: float
    tokens_per_s_per_chip: Annotated[float, Doc("output tokens (samples) a second, over all chips")]
    tokens_per_s_per_user: Annotated[float, Doc("output tokens a second that one user sees")]
    rate_error_ratio: Annotated[float, Doc("of rates: four in five predictions are within this")]
    usd_per_million_tokens: Annotated[float | None, Doc("input and output; samples where there are no tokens")] = None
    usd_per_million_output_tokens: float | None = None
    joules_per_token: Annotated[float | None, Doc("output token, or sample")] = None
    engine: Engine
    autoscaling: Autoscaling
    prefill: Annotated[PrefillPool | None, Doc("replicas that read prompts, where `replicas` only write")] = None
    doubts: Annotated[tuple[str, ...], Doc("targets that may be missed at the far end of wide error bars")] = ()
    serverless: Annotated[bool, Doc("the cheapest bill is of instances that come and go with the traffic")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """One configuration between speed for a user and yield of a chip, by the closed form."""

    chip: str
    tp: int
    pp: int
    ep: int
    attention_dp: int
    weights: str
    kv: str
    engine: str
    sequences_count: Annotated[float, Doc("that run at once in one replica")]
    tokens_per_s_per_chip: float
    tokens_per_s_per_user: float
    on_front: Annotated[bool, Doc("no chip gives more of both")] = False

    @property
    def layout(self) -> str:
        """The layout as engineers write it."""
        names = (("TP", self.tp), ("PP", self.pp), ("EP", self.ep), ("DP", self.attention_dp))
        return " ".join(f"{name}{degree}" for name, degree in names if degree > 1) or "TP1"
