"""A published serving benchmark as inputs of the serving model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import Precision
from gpuyard.perf.inference.run_columns import Row
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.perf.inference.shape import DecoderShape

Kind = Literal["static", "offline", "closed", "open", "mlperf-offline", "mlperf-server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Limits on the p99 latencies of a server scenario."""

    ttft_s: float = float("inf")
    tpot_s: float = float("inf")
    e2e_s: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkLoad:
    """Load of a benchmark run."""

    kind: Kind
    requests: int  # MLPerf: the minimum of a run
    prompt_tokens: float
    output_tokens: float
    users: int = 0  # concurrency of a closed loop, all replicas
    rate_per_s: float = 0.0  # arrival rate of an open loop, or of MLPerf Server where stated
    low_ratio: float = 1.0  # lengths are uniform in [ratio × stated, stated]
    variation: tuple[float, float] = (0.0, 0.0)  # log-normal spread of prompt and output lengths
    drift_tokens: int = 0  # maximum shortening of fixed-length outputs, so that steps differ
    most_tokens: tuple[float, float] = (float("inf"), float("inf"))
    hit_ratio: float = 0.0  # prefix-cache hit ratio
    slots: int = 0  # maximum running sequences; 0: the engine's
    budget_tokens: int = 0
    polls: bool = False  # requests wait until the engine polls its queue
    wait_steps: float = (
        0.0  # steps that a request waits for a poll, where the interval is configured
    )
    transfers: bool = False  # disaggregated prefill whose pools are not simulated: adds KV transfer
    run_s: float = 0.0  # minimum duration of an MLPerf run, which repeats requests
    ceiling: Ceiling = Ceiling()  # of MLPerf Server and Interactive


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingBenchmark:
    """One published serving row as model inputs."""

    row: Row
    shape: DecoderShape
    chip: ServingChip
    precision: Precision
    engine: ServingEngine
    layouts: tuple[tuple[ReplicaLayout, int], ...]  # candidates; one where the row states it
    prefill: tuple[ReplicaLayout, int] | None
    load: BenchmarkLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingBenchmarks:
    """Supported rows of a table, and unsupported ones with the reason."""

    cases: tuple[ServingBenchmark, ...]
    unsupported: tuple[tuple[str, str], ...]

    @property
    def rows(self) -> int:
        """Rows of the selected trust classes, without duplicates."""
        return len(self.cases) + len(self.unsupported)
