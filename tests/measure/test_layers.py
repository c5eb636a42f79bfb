"""GEMMs of a training step, timed per framework."""

from __future__ import annotations

import numpy as np
import pytest

from gpuyard.measure import layers
from gpuyard.measure.layers import cache_rates, layer_timings
from gpuyard.perf.local.step_work import StepGemm


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid of few shapes, each timed briefly."""
    for name, axis in (
        ("ROWS", (16, 32)),
        ("INPUTS", (8,)),
        ("OUTPUTS", (2, 4)),
        ("TOKENS", (8,)),
        ("WIDTHS", (4,)),
        ("HEADS", (2, 3)),
        ("FOOTPRINTS_BYTES", (1 << 12, 1 << 13, 1 << 14, 1 << 15)),
    ):
        monkeypatch.setattr(layers, name, axis)
    monkeypatch.setattr(layers, "BUDGET_S", 0.0)
    monkeypatch.setattr(layers, "MAX_ROUNDS", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("by", ["torch", "jax"])
def test_layer_timings_cover_every_kind_and_shape(by: str) -> None:
    pytest.importorskip(by)
    timings = list(layer_timings([f"{by}_transformer", "trees"]))
    kinds = layers.kinds_of(by)
    assert [(timing.kind, timing.rows, timing.inputs, timing.outputs) for timing in timings] == [
        (kind, *shape)
        for kind in kinds
        for shape in (
            [(8, 4, 2), (8, 4, 3)]
            if kind == "attention"
            else [(r, 8, o) for r in (16, 32) for o in (2, 4)]
        )
    ]
    assert all(timing.by == by and 0 < timing.time_s < 1 for timing in timings)
    assert {timing.kind for timing in layer_timings([f"{by}_mlp"], quick=True)} == {
        "forward",
        "input",
        "weight",
    }


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("by", ["torch", "jax"])
def test_cache_rates_cover_every_footprint(by: str) -> None:
    pytest.importorskip(by)
    rates = list(cache_rates([by]))
    assert [(rate.by, rate.size) for rate in rates] == [(by, 2.0**power) for power in range(12, 16)]
    assert all(rate.value > 1e5 for rate in rates)


def test_quick_grid_keeps_the_largest_size() -> None:
    assert layers._every_other((16, 64, 256, 1024)) == (64, 1024)
    assert layers._every_other((2, 16, 64, 256, 1024)) == (2, 64, 1024)


def test_compiled_rounds_depend_on_each_other() -> None:
    """XLA would compute a loop-invariant GEMM only once."""
    pytest.importorskip("jax")
    for kind in layers.kinds_of("jax"):
        call, rounds = layers._jax(StepGemm(kind=kind, rows=16, inputs=4, outputs=8))
        assert rounds > 1
        first = np.asarray(call()).ravel()
        assert first[0] != first[1]  # written by the last round
        assert abs(first[0]) < 1e-20
