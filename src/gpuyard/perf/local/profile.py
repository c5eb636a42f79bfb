"""Machine profile: measured GEMM, memory, process and storage rates, and training probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc, FormerName
from gpuyard.perf.local.step_work import GemmKind, LocalStepWork, StepGemm
from gpuyard.units import BYTES

Kind = Literal["product", "memory", "latency", "allreduce", "storage-write", "storage-read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate or latency, timed several times."""

    kind: Kind
    by: Annotated[str, Doc("numpy, torch, jax, gloo or the file system")]
    device: str = "cpu"
    dtype: str = ""
    size: Annotated[
        float,
        Doc("side of a square GEMM; else bytes, of memory the working set"),
    ]
    value: Annotated[float, Doc("FLOP/s of GEMMs, seconds of latency, bytes/s of the rest")]
    spread_ratio: Annotated[
        float, Doc("between the quarters of the repeated times, over their median")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmTiming:
    """One GEMM of a training step, timed alone in the training framework."""

    kind: GemmKind
    by: Annotated[str, Doc("torch or jax")]
    rows: Annotated[int, Doc("of a linear layer; tokens of an attention")]
    inputs: Annotated[int, Doc("of a linear layer; width of a head")]
    outputs: Annotated[int, Doc("of a linear layer; heads of all sequences")]
    time_s: float
    spread_ratio: Annotated[
        float, Doc("between the quarters of the repeated times, over their median")
    ]

    @property
    def flop_per_s(self) -> float:
        gemm = StepGemm(kind=self.kind, rows=self.rows, inputs=self.inputs, outputs=self.outputs)
        return gemm.flop / self.time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A short training run: the work of a step and its measured time."""

    trainer: str
    label: str
    work: LocalStepWork
    step_s: float
    memory_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerFit:
    """Fitted constants of a trainer on this machine."""

    trainer: str
    step_overhead_s: Annotated[float, Doc("per step, independent of its size")]
    layer_overhead_s: Annotated[float, Doc("kernel launches of one layer, forward and backward")]
    gemm_ratio: Annotated[
        float,
        FormerName("product_ratio"),
        Doc("time of the GEMMs over that of the same GEMMs alone"),
    ]
    activation_ratio: Annotated[float, Doc("activation time over one pass at memory bandwidth")]
    optimizer_ratio: Annotated[float, Doc("optimizer time over one pass at memory bandwidth")]
    error_ratio: Annotated[float, Doc("mean held-out error of the probes")]
    base_memory_bytes: Annotated[float, BYTES, Doc("of the process, without the model")]
    memory_ratio: Annotated[
        float, Doc("memory of weights, optimizer and activations over their sum")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingProbe:
    """Cost of a one-row request to the inference server, in core seconds."""

    request_s: Annotated[float, Doc("independent of the model")]
    value_s: Annotated[float, Doc("per number in the row")]
    flop_s: Annotated[float, Doc("per FLOP of a network")]
    visit_s: Annotated[float, Doc("per tree node that the row visits")]
    error_ratio: Annotated[float, Doc("mean held-out error of the models")]

    def cost_s(self, values: int, flop: float, visits: float) -> float:
        """Return the core seconds of a request."""
        return self.request_s + self.value_s * values + self.flop_s * flop + self.visit_s * visits


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProfile:
    """One machine, measured."""

    name: str
    processor: str
    cores_count: int
    memory_bytes: Annotated[float, BYTES]
    measured_at: Annotated[str, Doc("date and time, UTC")]
    versions: Annotated[tuple[tuple[str, str], ...], Doc("of Python and the frameworks")]
    accelerators: Annotated[tuple[str, ...], Doc("CUDA or TPU devices that were seen")] = ()
    rates: tuple[Rate, ...] = ()
    timings: tuple[GemmTiming, ...] = ()
    probes: tuple[Probe, ...] = ()
    fits: tuple[TrainerFit, ...] = ()
    serving: ServingProbe | None = None

    def fit(self, trainer: str) -> TrainerFit | None:
        """Return the fitted constants of a trainer."""
        return next((fit for fit in self.fits if fit.trainer == trainer), None)

    def rate(self, kind: Kind, by: str = "") -> Rate | None:
        """Return the best rate of a kind: the highest, or the lowest latency."""
        rates = [rate for rate in self.rates if rate.kind == kind and by in ("", rate.by)]
        pick = min if kind == "latency" else max
        return pick(rates, key=lambda rate: rate.value) if rates else None
