"""Models on chips, served by engines: what the tests of the serving model draw from."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.chip import ServingChip, chip_named
from gpuyard.perf.inference.columns import Row
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import KvCacheCapacity, StepLimits, kv_cache_capacity
from gpuyard.perf.inference.precision import Precision
from gpuyard.perf.inference.roofline_terms import costs_row
from gpuyard.perf.inference.serving_engine import ServingEngine, find_engine
from gpuyard.perf.inference.shape import DecoderShape, shape_of

CATALOG = load_catalog()
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-r1", "gpt-oss-120b")
CHIPS = (
    "a100-80gb",
    "h100-sxm",
    "h200-sxm",
    "b200",
    "gb300",
    "l40s",
    "rtx-pro-6000",
    "tpu-v6e",
    "l4",
    "t4",
    "mi300x",
)
ENGINES = ("trt-bench", "trt-torch-1", "vllm-v0", "vllm-v1", "vllm-async", "sglang")
WEIGHTS = ("bf16", "fp8", "nvfp4", "int4-weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Everything that a prediction needs."""

    shape: DecoderShape
    chip: ServingChip
    precision: Precision
    layout: ReplicaLayout
    engine: ServingEngine

    def row(self) -> Row:
        """Its coefficients."""
        return costs_row(
            self.shape, self.chip, self.precision, self.layout, self.engine, read_calibration()
        )

    def room(self, step: StepLimits | None = None) -> KvCacheCapacity:
        """Its memory."""
        return kv_cache_capacity(
            self.shape,
            self.chip,
            self.precision,
            self.layout,
            self.engine,
            read_calibration(),
            step,
        )


def served(
    model: str = "llama-3.1-70b",
    chip: str = "h100-sxm",
    weights: str = "fp8",
    engine: str = "vllm-v1",
    kv: str = "bf16",
    **layout: int,
) -> Served:
    """One case by names."""
    found = next(item for item in CATALOG.models if item.name == model).transformer
    known = chip_named(chip, CATALOG)
    assert found is not None
    assert known is not None
    return Served(
        shape=shape_of(found),
        chip=known,
        precision=Precision(weights=weights, kv=kv),  # type: ignore[arg-type]
        layout=ReplicaLayout(**layout),
        engine=find_engine(engine),
    )


@st.composite
def any_served(draw: st.DrawFn) -> Served:
    """Any of them."""
    return served(
        draw(st.sampled_from(MODELS)),
        draw(st.sampled_from(CHIPS)),
        draw(st.sampled_from(WEIGHTS)),
        draw(st.sampled_from(ENGINES)),
        draw(st.sampled_from(("bf16", "fp8"))),
        tp=draw(st.sampled_from((1, 2, 4, 8))),
        pp=draw(st.sampled_from((1, 2))),
    )
