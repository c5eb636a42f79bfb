"""What the result has to meet: time, money, latency, load, precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog import Framework, Task
from gpuyard.document import Doc
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, RATE, RATIO
from gpuyard.workload.keys import INFERENCE, TRAINING, Tasks

__all__ = ["Precision", "Requirements"]

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"]
_FINITE: tuple[Task, ...] = (*TRAINING, "graphics", "hpc")  # work that ends
_LASTING: tuple[Task, ...] = ("inference", "graphics")  # a service that runs until it is stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Limits that a plan must keep; what is left out is not limited."""

    deadline_s: Annotated[float | None, DURATION, Tasks(used=_FINITE), Doc("the work is finished by then")] = None
    budget_usd: Annotated[float | None, MONEY, Tasks(used=_FINITE), Doc("the whole run costs no more")] = None
    hourly_budget_usd_per_hour: Annotated[
        float | None, PRICE_PER_HOUR, Tasks(used=_LASTING), Doc("the service costs no more an hour")
    ] = None
    ttft_s: Annotated[float | None, DURATION, Tasks(used=INFERENCE), Doc("mean time to the first token")] = None
    tpot_s: Annotated[
        float | None, DURATION, Tasks(used=INFERENCE), Doc("mean time of each output token after the first")
    ] = None
    p99_s: Annotated[
        float | None, DURATION, Tasks(used=INFERENCE), Doc("99 of 100 requests are answered in full by then")
    ] = None
    requests_per_s: Annotated[float | None, RATE, Tasks(used=INFERENCE), Doc("requests that arrive")] = None
    precision: Annotated[
        Precision | None, Doc("data type of the arithmetic; default: chosen by what the chips can do")
    ] = None
    availability_ratio: Annotated[
        float | None, RATIO, Doc("share of time with useful progress (goodput), or with the service up")
    ] = None
    framework: Annotated[
        Framework | None, Doc("software that the code is written for; chips that cannot run it are left out")
    ] = None
