"""Products of a training step, timed by the frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from gpuyard.measure import cache_rates, layer_timings, layers
from gpuyard.perf.local import Product


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid of few shapes, each for a moment."""
    for name, axis in (
        ("ROWS", (16, 32)), ("INPUTS", (8,)), ("OUTPUTS", (2, 4)), ("TOKENS", (8,)), ("WIDTHS", (4,)), ("HEADS", (2, 3)),
        ("FOOTPRINTS_BYTES", (1 << 12, 1 << 13, 1 << 14, 1 << 15)),
    ):  # fmt: skip
        monkeypatch.setattr(layers, name, axis)
    monkeypatch.setattr(layers, "BUDGET_S", 0.0)
    monkeypatch.setattr(layers, "MOST_ROUNDS", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("by", ["torch", "jax"])
def test_every_kind_over_the_grid(by: str) -> None:
    pytest.importorskip(by)
    found = list(layer_timings([f"{by}_transformer", "trees"]))
    kinds = layers.kinds_of(by)
    assert [(each.kind, each.rows, each.inputs, each.outputs) for each in found] == [
        (kind, *shape)
        for kind in kinds
        for shape in ([(8, 4, 2), (8, 4, 3)] if kind == "attention" else [(r, 8, o) for r in (16, 32) for o in (2, 4)])
    ]
    assert all(each.by == by and 0 < each.time_s < 1 for each in found)
    assert {each.kind for each in layer_timings([f"{by}_mlp"], quick=True)} == {"forward", "input", "weight"}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("by", ["torch", "jax"])
def test_memory_from_small_to_large(by: str) -> None:
    pytest.importorskip(by)
    found = list(cache_rates([by]))
    assert [(each.by, each.size) for each in found] == [(by, 2.0**power) for power in range(12, 16)]
    assert all(each.value > 1e5 for each in found)


def test_fewer_places_keep_the_last() -> None:
    assert layers._fewer((16, 64, 256, 1024)) == (64, 1024)
    assert layers._fewer((2, 16, 64, 256, 1024)) == (2, 64, 1024)


def test_the_rounds_of_a_compiled_loop_need_each_other() -> None:
    """A loop whose products do not depend on each other would be computed once."""
    pytest.importorskip("jax")
    for kind in layers.kinds_of("jax"):
        call, rounds = layers._jax(Product(kind=kind, rows=16, inputs=4, outputs=8))
        assert rounds > 1
        first = np.asarray(call()).ravel()
        assert first[0] != first[1]  # the number that the last round put there
        assert abs(first[0]) < 1e-20
