"""Requirements of a workload: time, cost, latency, load, precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from gpuyard.catalog.chips import Framework
from gpuyard.catalog.platforms import TaskName
from gpuyard.document.field_types import Doc
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, RATE, RATIO
from gpuyard.workload.key_rules import INFERENCE, TRAINING, Tasks

PrecisionName = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"]
_FINITE: tuple[TaskName, ...] = (*TRAINING, "graphics", "hpc")  # batch jobs
_LASTING: tuple[TaskName, ...] = ("inference", "graphics")  # long-running services


MetricName = Literal["ttft", "tpot", "e2e"]
TAILS: tuple[tuple[MetricName, int], ...] = tuple(
    (metric, percent)
    for metric in get_args(MetricName)
    for percent in (50, 90, 95, 99)
    if (metric, percent) != ("e2e", 99)  # the key p99
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLimit:
    """A limit on a percentile of a latency."""

    key: str  # as the file spells it
    metric: MetricName
    percent: int
    limit_s: float

    @property
    def field(self) -> str:
        """The percentile of the record of a latency."""
        return f"p{self.percent}_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Limits that a plan must meet; a key left out is not limited."""

    deadline_s: Annotated[
        float | None, DURATION, Tasks(used=_FINITE), Doc("maximum time until the work is done")
    ] = None
    budget_usd: Annotated[
        float | None, MONEY, Tasks(used=_FINITE), Doc("maximum cost of the whole run")
    ] = None
    hourly_budget_usd_per_hour: Annotated[
        float | None,
        PRICE_PER_HOUR,
        Tasks(used=_LASTING),
        Doc("maximum cost of the service per hour"),
    ] = None
    ttft_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("mean time to first token (TTFT)"),
    ] = None
    tpot_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("mean time per output token after the first (TPOT)"),
    ] = None
    p99_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("99th percentile of the end-to-end latency of a request"),
    ] = None
    requests_per_s: Annotated[
        float | None, RATE, Tasks(used=INFERENCE), Doc("arrival rate of requests (open loop)")
    ] = None
    confidence_ratio: Annotated[
        float,
        RATIO,
        Doc("chance with which a plan must meet each limit; 50 % is the nominal prediction"),
    ] = 0.9
    precision: Annotated[
        PrecisionName | None,
        Doc("compute dtype; default: bf16 for training, by chip and checkpoint for serving"),
    ] = None
    availability_ratio: Annotated[
        float | None,
        RATIO,
        Doc("goodput of a run, or uptime of a service"),
    ] = None
    framework: Annotated[
        Framework | None,
        Doc("framework of the code; chips that do not run it are excluded"),
    ] = None
    ttft_p50_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("50th percentile of the time to first token"),
    ] = None
    ttft_p90_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("90th percentile of the time to first token"),
    ] = None
    ttft_p95_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("95th percentile of the time to first token"),
    ] = None
    ttft_p99_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("99th percentile of the time to first token"),
    ] = None
    tpot_p50_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("50th percentile of the time per output token of a request"),
    ] = None
    tpot_p90_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("90th percentile of the time per output token of a request"),
    ] = None
    tpot_p95_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("95th percentile of the time per output token of a request"),
    ] = None
    tpot_p99_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("99th percentile of the time per output token of a request"),
    ] = None
    e2e_p50_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("50th percentile of the end-to-end latency"),
    ] = None
    e2e_p90_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("90th percentile of the end-to-end latency"),
    ] = None
    e2e_p95_s: Annotated[
        float | None,
        DURATION,
        Tasks(used=INFERENCE),
        Doc("95th percentile of the end-to-end latency"),
    ] = None

    @property
    def tails(self) -> tuple[TailLimit, ...]:
        """The limits on percentiles, besides `p99`."""
        return tuple(
            TailLimit(key=f"{metric}_p{percent}", metric=metric, percent=percent, limit_s=limit_s)
            for metric, percent in TAILS
            if (limit_s := getattr(self, f"{metric}_p{percent}_s")) is not None
        )
