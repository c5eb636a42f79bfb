"""A serving replica, and the interface to the simulation that runs it under load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.columns import Row
from gpuyard.perf.inference.error_bars import Interval, Metric, service_interval
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import KvCacheCapacity, StepLimits
from gpuyard.perf.inference.precision import Precision
from gpuyard.perf.inference.quantiles import LatencyQuantiles
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.plan.inference.load import ServingLoad


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replica:
    """A model on some chips with an engine: step cost and KV-cache capacity."""

    chip: ServingChip
    engine: ServingEngine
    precision: Precision
    layout: ReplicaLayout
    room: KvCacheCapacity
    limits: StepLimits
    row: Row
    kind: str = "dense"  # or moe
    unmeasured: str = ""  # why no published run resembles the model; empty: some do

    @property
    def ranks(self) -> int:
        """Schedulers per replica: each attention data-parallel rank has its own sequences."""
        return self.layout.attention_dp

    def interval(self, metric: Metric, disaggregated: bool = False) -> Interval:
        """Return the error bar of a metric."""
        return service_interval(
            metric, self.chip, self.engine, disaggregated, self.unmeasured, kind=self.kind
        )

    def max_sequences(self, tokens: float) -> float:
        """Concurrent sequences of that length per rank."""
        return float(min(self.room.sequences(tokens), self.limits.sequences))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefillReplicas:
    """Prefill replicas, and the KV-cache transfer time to the decode replicas."""

    replica: Replica
    replicas: int
    transfer_setup_s: float  # per prompt
    token_s: float  # per token of the prompt

    def kv_transfer_s(self, tokens: float) -> float:
        """Return the KV-cache transfer time of a prompt."""
        return self.transfer_setup_s + self.token_s * tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLatencies:
    """Latencies and rates of replicas under a load."""

    ttft: LatencyQuantiles
    tpot: LatencyQuantiles
    e2e: LatencyQuantiles
    requests_per_s: float
    output_tokens_per_s: float
    batch_count: float  # mean sequences per step and rank
    preemptions: int = 0
    queued_s: float = 0.0  # mean, from arrival to the first step
    keeps_up: bool = True  # false: the queue grows without bound


class ServingModel(Protocol):
    """Predicts latencies under load; implemented by the event simulation."""

    def serve(
        self,
        replica: Replica,
        replicas: int,
        load: ServingLoad,
        prefill: PrefillReplicas | None = None,
    ) -> ReplicaLatencies | Infeasible:
        """Return latencies and rates of the replicas, or Infeasible if a request can never run.

        With `prefill`, that pool runs prefill and the replicas only decode.
        """
        ...
