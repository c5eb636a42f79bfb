"""The step of a training on a measured machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog import Transformer
from gpuyard.errors import InputError
from gpuyard.perf.local import (
    LocalProfile,
    Probe,
    Rate,
    fit_probes,
    mlp_work,
    predict_step,
    transformer_work,
    trees_work,
)

RATES = tuple(
    Rate(kind="product", by="jax", dtype="float32", size=size, value=size * 1e8, spread_ratio=0.0)
    for size in (8.0, 64.0, 512.0, 2048.0)
)
MEMORY = Rate(kind="memory", by="numpy", size=1e8, value=1e10, spread_ratio=0.0)
PROFILE = LocalProfile(
    name="here", processor="a processor", cores_count=2, memory_bytes=1e10, measured_at="2026-01-01", versions=(),
    rates=(*RATES, MEMORY),
)  # fmt: skip
SHAPES = ((16, 32, 2), (64, 64, 2), (256, 128, 3), (32, 512, 2), (512, 256, 4), (128, 1024, 2), (8, 2048, 1))


def probes(overhead_s: float, product: float, activation: float, optimizer: float) -> list[Probe]:
    """Trainings of a machine that follows the equation."""
    found = []
    for rows, width, layers in SHAPES:
        work = mlp_work((20, *(width,) * layers, 2), rows)
        exact = fit_probes(
            PROFILE, "jax_mlp", [Probe(trainer="jax_mlp", label="", work=work, step_s=1.0, memory_bytes=1.0)]
        )
        fit = replace(
            exact, step_overhead_s=overhead_s, layer_overhead_s=0.0, product_ratio=product, activation_ratio=activation,
            optimizer_ratio=optimizer,
        )  # fmt: skip
        step = predict_step(work, replace(PROFILE, fits=(fit,)), "jax_mlp").step_s
        found.append(
            Probe(trainer="jax_mlp", label="", work=work, step_s=step, memory_bytes=1e8 + 3 * work.optimizer_bytes)
        )
    return found


def test_constants_are_found_again() -> None:
    fit = fit_probes(PROFILE, "jax_mlp", probes(2e-4, 1.5, 0.8, 1.2))
    assert fit.product_ratio == pytest.approx(1.5, rel=1e-6)
    assert fit.activation_ratio == pytest.approx(0.8, rel=1e-6)
    assert fit.optimizer_ratio == pytest.approx(1.2, rel=1e-6)
    assert fit.step_overhead_s == pytest.approx(2e-4, rel=1e-6)
    assert fit.error_ratio == 0.05  # never below what repeated runs differ by


def test_parts_add_up_and_no_constant_is_below_zero() -> None:
    noisy = [
        replace(probe, step_s=probe.step_s * (1 + 0.2 * (-1) ** n)) for n, probe in enumerate(probes(1e-4, 1, 0, 0))
    ]
    fit = fit_probes(PROFILE, "jax_mlp", noisy)
    assert (
        min(fit.step_overhead_s, fit.layer_overhead_s, fit.product_ratio, fit.activation_ratio, fit.optimizer_ratio)
        >= 0
    )
    step = predict_step(noisy[0].work, replace(PROFILE, fits=(fit,)), "jax_mlp")
    assert step.step_s == pytest.approx(step.overhead_s + step.product_s + step.activation_s + step.optimizer_s)


def test_a_trainer_that_was_not_tried_is_told() -> None:
    with pytest.raises(InputError, match="gpuyard measure"):
        predict_step(mlp_work((4, 8, 2), 16), PROFILE, "torch_mlp")


@given(st.integers(1, 4), st.integers(1, 8), st.integers(2, 64))
def test_work_grows_with_the_batch(layers: int, sequences: int, tokens: int) -> None:
    shape = Transformer(layers=layers, hidden=32, heads=2, ffn=64, vocab=100)
    one, two = transformer_work(shape, sequences, tokens), transformer_work(shape, 2 * sequences, tokens)
    assert two.flop == pytest.approx(2 * one.flop)
    assert two.activation_bytes == pytest.approx(2 * one.activation_bytes)
    assert two.optimizer_bytes == one.optimizer_bytes


def test_flop_of_a_perceptron() -> None:
    # 2 x rows x (4 x 8 + 8 x 2) forward, the same for the weights' gradients, 8 x 2 for the inputs of the second layer
    assert mlp_work((4, 8, 2), 10).flop == 2 * 10 * (2 * (32 + 16) + 16)


def test_trees_read_every_row_at_every_level() -> None:
    assert trees_work(1000, 10, 16).activation_bytes == 1000 * 10 * 4
    assert trees_work(1000, 10, 16, outputs=3).activation_bytes == 3 * 1000 * 10 * 4
