"""One replica as the search sees it, and the seam to whoever simulates it under load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpuyard.errors import Infeasible
from gpuyard.perf.inference import Engine, Limits, Precision, ReplicaLayout, Room, Row, ServingChip
from gpuyard.perf.inference.quantiles import Quantiles
from gpuyard.plan.inference.load import Load

__all__ = ["Latencies", "PromptPool", "Quantiles", "Replica", "ServingModel"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replica:
    """A model on some chips with an engine: what a step costs and what the cache holds."""

    chip: ServingChip
    engine: Engine
    precision: Precision
    layout: ReplicaLayout
    room: Room
    limits: Limits
    row: Row

    @property
    def ranks(self) -> int:
        """Schedulers of the replica: attention data parallel ranks each have their own sequences."""
        return self.layout.attention_dp

    def held(self, tokens: float) -> float:
        """Sequences of that length that one rank runs at once."""
        return float(min(self.room.sequences(tokens), self.limits.sequences))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptPool:
    """Replicas that read prompts, and how long a cache takes to those that write."""

    replica: Replica
    replicas: int
    handover_s: float  # of one prompt, whatever its length
    token_s: float  # and of each of its tokens

    def hand_over_s(self, tokens: float) -> float:
        """From the last prompt token read to the cache of all of them there."""
        return self.handover_s + self.token_s * tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """What replicas did under a load."""

    ttft: Quantiles
    tpot: Quantiles
    e2e: Quantiles
    requests_per_s: float
    output_tokens_per_s: float
    batch_count: float  # sequences in a step of one rank, on average
    preemptions: int = 0
    queued_s: float = 0.0  # from arrival to the first step, on average
    keeps_up: bool = True  # false: requests come faster than they are answered


class ServingModel(Protocol):
    """Whoever knows what a load does to replicas: the event simulation."""

    def serve(
        self, replica: Replica, replicas: int, load: Load, prompts: PromptPool | None = None
    ) -> Latencies | Infeasible:
        """Latencies and rates of so many replicas under the load; Infeasible if a request can never run.

        With `prompts`, that pool reads and the replicas only write.
        """
        ...
