"""This machine as measured: rates of products, memory, processes and storage, and trainings that were tried on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import Doc
from gpuyard.perf.local.work import Product, ProductKind, Work
from gpuyard.units import BYTES

__all__ = ["Fit", "Kind", "LocalProfile", "Probe", "Rate", "ServingProbe", "Timing"]

Kind = Literal["product", "memory", "latency", "allreduce", "storage-write", "storage-read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One thing that was timed several times."""

    kind: Kind
    by: Annotated[str, Doc("what did it: numpy, torch, jax, gloo or the file system")]
    device: str = "cpu"
    dtype: str = ""
    size: Annotated[float, Doc("side of a square product; else bytes, of memory those that are used again and again")]
    value: Annotated[float, Doc("flop/s of products, bytes/s of the rest, seconds of latency")]
    spread_ratio: Annotated[float, Doc("between the quarters of the repeated times, over their median")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One product of a training step, timed alone by the framework that trains."""

    kind: ProductKind
    by: Annotated[str, Doc("torch or jax")]
    rows: Annotated[int, Doc("of a linear layer; tokens of an attention")]
    inputs: Annotated[int, Doc("of a linear layer; width of a head")]
    outputs: Annotated[int, Doc("of a linear layer; heads of all sequences")]
    time_s: float
    spread_ratio: Annotated[float, Doc("between the quarters of the repeated times, over their median")]

    @property
    def flop_per_s(self) -> float:
        """Operations over the time they took."""
        product = Product(kind=self.kind, rows=self.rows, inputs=self.inputs, outputs=self.outputs)
        return product.flop / self.time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A short training: what a step does, and how long it took."""

    trainer: str
    label: str
    work: Work
    step_s: float
    memory_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a trainer's step follows from its work here; each constant has a meaning."""

    trainer: str
    step_overhead_s: Annotated[float, Doc("of a step, whatever its size")]
    layer_overhead_s: Annotated[float, Doc("of starting the kernels of one layer, forward and backward")]
    product_ratio: Annotated[float, Doc("time of the products over that of the same products alone")]
    activation_ratio: Annotated[float, Doc("time to move activations over that of one pass at the memory's rate")]
    optimizer_ratio: Annotated[float, Doc("time of the optimiser over that of one pass at the memory's rate")]
    error_ratio: Annotated[float, Doc("mean of leaving one probe out and predicting it")]
    base_memory_bytes: Annotated[float, BYTES, Doc("of the process before the model")]
    memory_ratio: Annotated[float, Doc("memory of weights, optimiser and activations over their plain sum")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingProbe:
    """The inference server under load: what a request of one row costs, in seconds of one core."""

    request_s: Annotated[float, Doc("whatever the model")]
    value_s: Annotated[float, Doc("more for every number in it")]
    flop_s: Annotated[float, Doc("more for every operation of a network")]
    visit_s: Annotated[float, Doc("more for every node that a row visits in trees")]
    error_ratio: Annotated[float, Doc("mean of leaving one model out and predicting it")]

    def cost_s(self, values: int, flop: float, visits: float) -> float:
        """The time of one core that a request takes."""
        return self.request_s + self.value_s * values + self.flop_s * flop + self.visit_s * visits


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalProfile:
    """One machine, measured."""

    name: str
    processor: str
    cores_count: int
    memory_bytes: Annotated[float, BYTES]
    measured_at: Annotated[str, Doc("date and time, UTC")]
    versions: Annotated[tuple[tuple[str, str], ...], Doc("of Python and the frameworks")]
    accelerators: Annotated[tuple[str, ...], Doc("CUDA or TPU devices that were seen")] = ()
    rates: tuple[Rate, ...] = ()
    timings: tuple[Timing, ...] = ()
    probes: tuple[Probe, ...] = ()
    fits: tuple[Fit, ...] = ()
    serving: ServingProbe | None = None

    def fit(self, trainer: str) -> Fit | None:
        """The constants of a trainer."""
        return next((fit for fit in self.fits if fit.trainer == trainer), None)

    def rate(self, kind: Kind, by: str = "") -> Rate | None:
        """The best rate of a kind; of latency the shortest."""
        found = [rate for rate in self.rates if rate.kind == kind and by in ("", rate.by)]
        pick = min if kind == "latency" else max
        return pick(found, key=lambda rate: rate.value) if found else None
