"""A published serving run as values: everything that a prediction of it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuyard.perf.inference.cells import Row
from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.engine import Engine
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import Precision
from gpuyard.perf.inference.shape import Shape

__all__ = ["Case", "Cases", "Ceiling", "Load"]

Kind = Literal["static", "offline", "closed", "open", "mlperf-offline", "mlperf-server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What 99 % of requests may take at most."""

    ttft_s: float = float("inf")
    tpot_s: float = float("inf")
    e2e_s: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the run's clients did."""

    kind: Kind
    requests: int  # of MLPerf: the least of a run
    prompt_tokens: float
    output_tokens: float
    users: int = 0  # of a closed loop, over all replicas
    rate_per_s: float = 0.0  # of an open loop
    low_ratio: float = 1.0  # lengths are uniform between this times the stated ones and those
    variation: tuple[float, float] = (0.0, 0.0)  # of lognormal lengths
    drift_tokens: int = 0  # by which outputs of one length differ
    most_tokens: tuple[float, float] = (float("inf"), float("inf"))
    hit_ratio: float = 0.0  # of the prompt, in the prefix cache
    slots: int = 0  # sequences that the run lets in at once; 0: as the engine's
    budget_tokens: int = 0
    polls: bool = False  # clients wait for the engine's next look at its queue
    wait_steps: float = 0.0  # beside that, where the engine was told to look only every so many steps
    run_s: float = 0.0  # least time of a run of MLPerf, whose requests are so many more
    ceiling: Ceiling = Ceiling()  # of a server of MLPerf


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row."""

    row: Row
    shape: Shape
    chip: ServingChip
    precision: Precision
    engine: Engine
    layouts: tuple[tuple[ReplicaLayout, int], ...]  # choices; one where the row says
    prefill: tuple[ReplicaLayout, int] | None
    load: Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """The rows of a table that can be predicted, and why others cannot."""

    cases: tuple[Case, ...]
    unsupported: tuple[tuple[str, str], ...]

    @property
    def rows(self) -> int:
        """All rows of the asked trust, repeats left out."""
        return len(self.cases) + len(self.unsupported)
