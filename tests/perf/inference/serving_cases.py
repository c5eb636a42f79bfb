"""Models on chips, served by engines: what the tests of the serving model draw from."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from gpuyard.catalog import load_catalog
from gpuyard.perf.inference import (
    Engine,
    Limits,
    Precision,
    ReplicaLayout,
    Room,
    Row,
    ServingChip,
    Shape,
    chip_named,
    costs_row,
    find_engine,
    read_calibration,
    room,
    shape_of,
)

CATALOG = load_catalog()
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-r1", "gpt-oss-120b")
CHIPS = ("a100-80gb", "h100-sxm", "h200-sxm", "b200", "gb300", "l40s", "rtx-pro-6000", "tpu-v6e", "l4", "t4", "mi300x")
ENGINES = ("trt-bench", "trt-torch-1", "vllm-v0", "vllm-v1", "vllm-async", "sglang")
WEIGHTS = ("bf16", "fp8", "nvfp4", "int4-weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Everything that a prediction needs."""

    shape: Shape
    chip: ServingChip
    precision: Precision
    layout: ReplicaLayout
    engine: Engine

    def row(self) -> Row:
        """Its coefficients."""
        return costs_row(self.shape, self.chip, self.precision, self.layout, self.engine, read_calibration())

    def room(self, step: Limits | None = None) -> Room:
        """Its memory."""
        return room(self.shape, self.chip, self.precision, self.layout, self.engine, read_calibration(), step)


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
