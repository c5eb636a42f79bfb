"""Models on chips, spread by layouts, run by software: what the tests of the training model draw from."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.chip_kernels import calibrated, peak_flop_per_s, silicon_of, training_chip
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.from_catalog import architecture
from gpuyard.perf.layout import Architecture, Layout, Software, TrainingChip
from gpuyard.perf.memory import Memory, memory
from gpuyard.perf.profiles import find_profile, read_profiles
from gpuyard.perf.software import software
from gpuyard.perf.training import StepTime, step_time

CATALOG = load_catalog()
MODELS = (
    "gpt-3-175b",
    "llama-3-8b",
    "llama-3-70b",
    "gpt-oss-120b",
    "mixtral-8x7b",
    "deepseek-v3",
    "deepseek-v2-lite",
)
CHIPS = ("a100-80gb", "h100-sxm", "b200", "gb300", "mi300x", "tpu-v5e", "tpu-v5p")
PRECISIONS = ("bf16", "fp8", "mxfp8", "nvfp4")
PROFILES = tuple(profile.name for profile in read_profiles())
ONES = (
    "tp",
    "pp",
    "dp",
    "cp",
    "ep",
    "expert_tensor_parallel",
    "virtual_pipeline",
    "micro_batch",
    "grad_accum",
    "shard_ranks",
)
DOMAINS = {"gb300": 72.0, "tpu-v5e": 256.0, "tpu-v5p": 8960.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that a prediction needs."""

    arch: Architecture
    layout: Layout
    chip: TrainingChip
    soft: Software
    constants: TrainingConstants

    def step(self) -> StepTime:
        """The parts of a step."""
        return step_time(self.arch, self.layout, self.chip, self.soft, self.constants)

    def step_s(self) -> float:
        """The whole step."""
        return float(self.step().total_s)

    def memory(self) -> Memory:
        """The parts of the memory."""
        return memory(self.arch, self.layout, self.chip, self.soft)

    def memory_bytes(self) -> float:
        """All of the memory."""
        return float(self.memory().total_bytes)


def number(value: float) -> Any:
    """A number as the model takes it."""
    return np.asarray(value, dtype=np.float64)


def changed(value: Any, **numbers: float) -> Any:
    """The same value with other numbers."""
    return replace(value, **{name: number(found) for name, found in numbers.items()})


def scaled(chip: TrainingChip, times: float, *names: str) -> TrainingChip:
    """The chip with more (or less) of something."""
    return replace(chip, **{name: getattr(chip, name) * times for name in names})


def layout(**numbers: float) -> Layout:
    """One chip, one sample; what is given differs. The number of chips follows from the degrees."""
    found = {field.name: float(field.name in ONES) for field in fields(Layout)}
    found |= numbers
    found["chips"] = found["tp"] * found["pp"] * found["dp"] * found["cp"]
    return Layout(**{name: number(value) for name, value in found.items()})


def model(name: str, tokens: int = 2048, adapters: bool = False) -> Architecture:
    """A model of the catalog."""
    shape = next(row for row in CATALOG.models if row.name == name).transformer
    assert shape
    return architecture(shape, tokens, adapters)


def chip(
    name: str, precision: Any = "bf16", domain: float = 8.0, nic_bytes_per_s: float = 50e9
) -> TrainingChip:
    """A chip of the catalog with the rates that its kernels reach."""
    row = CATALOG.chip(name)
    silicon = silicon_of(row)
    assert silicon
    bare = training_chip(silicon, row, precision, domain, nic_bytes_per_s)
    return calibrated(bare, silicon, precision, read_calibration())


def case(
    name: str = "gpt-3-175b",
    on: str = "a100-80gb",
    profile: str = "megatron-bridge-26.06",
    precision: str = "bf16",
    tokens: int = 2048,
    adapters: bool = False,
    scalar: float = 1.0,
    **degrees: float,
) -> Case:
    """A model on a chip by a layout; the rest is usual."""
    return Case(
        arch=model(name, tokens, adapters),
        layout=layout(**degrees),
        chip=chip(on, precision, DOMAINS.get(on, 8.0)),
        soft=software(find_profile(profile), scalar, nvl72=on.startswith("gb")),
        constants=read_calibration().constants,
    )


def runs_at(name: str, precision: Any) -> bool:
    """Whether a chip has a peak at a precision."""
    return peak_flop_per_s(CATALOG.chip(name), precision) is not None


def reaches_host(name: str) -> bool:
    """Whether the link of a chip to its host is known."""
    silicon = silicon_of(CATALOG.chip(name))
    return silicon is not None and silicon.host_bytes_per_s > 0.0


@st.composite
def cases(
    draw: st.DrawFn, models: tuple[str, ...] = MODELS, profiles: tuple[str, ...] = PROFILES
) -> Case:
    """Any model, chip, precision, software and layout that the model can express."""
    name, on = draw(st.sampled_from(models)), draw(st.sampled_from(CHIPS))
    precision = draw(st.sampled_from([kind for kind in PRECISIONS if runs_at(on, kind)]))
    tp, pp, cp = (
        draw(st.sampled_from((1, 2, 4, 8, 16))),
        draw(st.sampled_from((1, 1, 2, 3, 4, 8))),
        draw(_few),
    )
    dp = draw(st.sampled_from((1, 2, 4, 8, 32, 128, 1024)))
    shard = draw(st.sampled_from((1, dp * cp, max(dp * cp // 4, 1))))
    again = draw(st.sampled_from((0.0, 0.0, 0.5, 1.0)))
    ep = (
        min(draw(st.sampled_from((1, 2, 8, 64))), tp * dp * cp)
        if "gpt-3" not in name and "llama" not in name
        else 1
    )
    return case(
        name,
        on,
        draw(st.sampled_from(profiles)),
        precision,
        draw(st.sampled_from((512, 2048, 8192, 131_072))),
        adapters=draw(st.booleans()),
        scalar=draw(st.sampled_from((0.8, 1.0, 1.2))),
        tp=tp,
        pp=pp,
        cp=cp,
        dp=dp,
        ep=ep,
        virtual_pipeline=draw(st.sampled_from((1, 2, 4))) if pp > 1 else 1,
        micro_batch=draw(st.sampled_from((1, 2, 3, 8))),
        grad_accum=draw(st.sampled_from((1, 2, 7, 64))),
        seq_parallel=draw(st.sampled_from((0, 1))),
        fsdp=draw(st.sampled_from((0, 1))) if shard > 1 else 0,
        shard_ranks=shard,
        recompute_gemm=again,
        recompute_attention=draw(st.sampled_from((0.0, 1.0))),
        recompute_elementwise=again,
        recompute_comm=again,
        offload_optimizer=draw(_seldom) if reaches_host(on) else 0.0,
        offload_activation=draw(_seldom) if reaches_host(on) else 0.0,
    )


_few = st.sampled_from((1, 1, 1, 2, 4))
_seldom = st.sampled_from((0.0, 0.0, 0.0, 0.5, 1.0))
