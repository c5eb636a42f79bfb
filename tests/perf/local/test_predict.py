"""The step of a training on a measured machine."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.models import Transformer
from gpuyard.errors import InputError
from gpuyard.perf.local.predict import fit_probes, gemms_s, predict_step
from gpuyard.perf.local.profile import GemmTiming, MachineProfile, Probe, Rate, TrainerFit
from gpuyard.perf.local.step_work import mlp_step_work, transformer_step_work, trees_step_work

GRID = (2, 16, 128, 1024)
# Products whose rate grows with their size, to 50 Gflop/s; the weights' gradient takes twice as long.
TIMINGS = tuple(
    GemmTiming(kind=kind, by="jax", rows=rows, inputs=inputs, outputs=outputs, spread_ratio=0.0,
           time_s=slow * (1e-6 + 2.0 * rows * inputs * outputs / 5e10))
    for kind, slow in (("forward", 1.0), ("input", 1.0), ("weight", 2.0))
    for rows, inputs, outputs in itertools.product(GRID, GRID, GRID)
)  # fmt: skip
RATES = tuple(
    Rate(kind="memory", by="jax", size=size, value=value, spread_ratio=0.0)
    for size, value in ((1e5, 8e10), (1e7, 4e10), (1e8, 1e10))
)
PROFILE = MachineProfile(
    name="here", processor="a processor", cores_count=2, memory_bytes=1e10, measured_at="2026-01-01", versions=(),
    rates=RATES, timings=TIMINGS,
)  # fmt: skip
SHAPES = (
    (16, 32, 2),
    (64, 64, 2),
    (256, 128, 3),
    (32, 512, 2),
    (512, 256, 4),
    (128, 1024, 2),
    (8, 2048, 1),
)


def probes(overhead_s: float, product: float, activation: float, optimizer: float) -> list[Probe]:
    """Trainings of a machine that follows the equation."""
    found = []
    for rows, width, layers in SHAPES:
        work = mlp_step_work((20, *(width,) * layers, 2), rows)
        exact = fit_probes(
            PROFILE,
            "jax_mlp",
            [Probe(trainer="jax_mlp", label="", work=work, step_s=1.0, memory_bytes=1.0)],
        )
        fit = replace(
            exact,
            step_overhead_s=overhead_s,
            layer_overhead_s=0.0,
            gemm_ratio=product,
            activation_ratio=activation,
            optimizer_ratio=optimizer,
        )
        step = predict_step(work, replace(PROFILE, fits=(fit,)), "jax_mlp").step_s
        found.append(
            Probe(
                trainer="jax_mlp",
                label="",
                work=work,
                step_s=step,
                memory_bytes=1e8 + 3 * work.optimizer_bytes,
            )
        )
    return found


def test_fit_recovers_constants() -> None:
    fit = fit_probes(PROFILE, "jax_mlp", probes(2e-4, 1.5, 0.8, 1.2))
    assert fit.gemm_ratio == pytest.approx(1.5, rel=1e-6)
    assert fit.activation_ratio == pytest.approx(0.8, rel=1e-6)
    assert fit.optimizer_ratio == pytest.approx(1.2, rel=1e-6)
    assert fit.step_overhead_s == pytest.approx(2e-4, rel=1e-6)
    assert fit.error_ratio == 0.05  # never below what repeated runs differ by


def test_parts_add_up_and_no_constant_is_below_zero() -> None:
    noisy = [
        replace(probe, step_s=probe.step_s * (1 + 0.2 * (-1) ** n))
        for n, probe in enumerate(probes(1e-4, 1, 0, 0))
    ]
    fit = fit_probes(PROFILE, "jax_mlp", noisy)
    assert (
        min(
            fit.step_overhead_s,
            fit.layer_overhead_s,
            fit.gemm_ratio,
            fit.activation_ratio,
            fit.optimizer_ratio,
        )
        >= 0
    )
    step = predict_step(noisy[0].work, replace(PROFILE, fits=(fit,)), "jax_mlp")
    assert step.step_s == pytest.approx(
        step.overhead_s + step.matmul_s + step.activation_s + step.optimizer_s
    )


def test_missing_measurement_is_reported() -> None:
    work = mlp_step_work((4, 8, 2), 16)
    with pytest.raises(InputError, match="gpuyard measure"):
        predict_step(work, PROFILE, "torch_mlp")
    probe = Probe(trainer="jax_mlp", label="", work=work, step_s=1.0, memory_bytes=1.0)
    with pytest.raises(InputError, match="forward, input, weight by jax was not timed"):
        fit_probes(replace(PROFILE, timings=()), "jax_mlp", [probe])
    with pytest.raises(InputError, match="no memory rates by jax"):
        fit_probes(replace(PROFILE, rates=()), "jax_mlp", [probe])


def test_tokens_count_as_rows_where_not_timed_separately() -> None:
    shape = Transformer(layers=2, hidden=16, heads=2, ffn=128, vocab=128)
    attention = GemmTiming(
        kind="attention", by="jax", rows=16, inputs=8, outputs=4, time_s=1e-4, spread_ratio=0.0
    )
    profile = replace(PROFILE, timings=(*TIMINGS, attention))
    work = transformer_step_work(shape, 2, 17)
    rows = gemms_s(work, profile, "jax")
    apart = tuple(
        replace(each, kind="token-weight", time_s=each.time_s / 2)
        for each in TIMINGS
        if each.kind == "weight"
    )
    assert gemms_s(work, replace(profile, timings=(*profile.timings, *apart)), "jax") < rows
    # two layers of four heads of 8 on 16 tokens, as it was timed
    only = tuple(product for product in work.gemms if product.kind == "attention")
    assert gemms_s(replace(work, gemms=only), profile, "jax") == pytest.approx(2e-4)


@given(st.integers(1, 4), st.integers(1, 8), st.integers(2, 64))
def test_work_grows_with_the_batch(layers: int, sequences: int, tokens: int) -> None:
    shape = Transformer(layers=layers, hidden=32, heads=2, ffn=64, vocab=100)
    one, two = (
        transformer_step_work(shape, sequences, tokens),
        transformer_step_work(shape, 2 * sequences, tokens),
    )
    assert two.flop == pytest.approx(2 * one.flop)
    assert two.activation_bytes == pytest.approx(2 * one.activation_bytes)
    assert two.optimizer_bytes == one.optimizer_bytes


def test_flop_of_a_perceptron() -> None:
    # 2 x rows x (4 x 8 + 8 x 2) forward, the same for the weights' gradients, 8 x 2 for the inputs of the second layer
    assert mlp_step_work((4, 8, 2), 10).flop == 2 * 10 * (2 * (32 + 16) + 16)


def test_flop_of_an_attention() -> None:
    # of two sequences of two heads of 8 on 4 tokens: scores and values, and four products of their gradients
    shape = Transformer(layers=3, hidden=16, heads=2, ffn=32, vocab=10)
    attention = [
        product
        for product in transformer_step_work(shape, 2, 5).gemms
        if product.kind == "attention"
    ]
    assert sum(product.flop for product in attention) == 3 * (2 * 2) * 6 * (2 * 4 * 4 * 8)


def test_trees_read_the_smaller_half_of_the_rows_at_every_level() -> None:
    one = trees_step_work(1000, 10, 16)
    assert one.activation_bytes == 1000 * (1 + 4 / 2) * (10 + 12) + 1000 * 36
    assert (one.layers, one.optimizer_bytes) == (16, 16 * 10 * 255 * 16)
    assert trees_step_work(1000, 10, 16, outputs=3).activation_bytes == 3 * one.activation_bytes


def test_trees_of_few_rows_have_fewer_leaves_and_bins() -> None:
    few = trees_step_work(100, 10, 31)  # twenty rows a leaf at least, three a bin
    assert (few.layers, few.optimizer_bytes) == (4, 4 * 10 * 33 * 16)
    assert trees_step_work(100, 10, 31, min_rows=1).layers == 31
    assert trees_step_work(30, 10, 31).layers == 1  # nothing can be split


@pytest.mark.parametrize(("rows", "least"), [(455, 20), (2000, 10), (5000, 20)])
def test_leaf_count_matches_work(rows: int, least: int) -> None:
    rng, trees, leaves = random.Random(1), 100, 0
    for _ in range(trees):
        whole = [float(rows)]
        while whole:
            size = whole.pop()
            if size < 2 * least:
                leaves += 1
                continue
            cut = rng.uniform(least, size - least)
            whole += [cut, size - cut]
    assert trees_step_work(rows, 1, rows, min_rows=least).layers == pytest.approx(
        leaves / trees, rel=0.02
    )


def test_trees_take_no_less_time_a_value_where_a_cache_holds_them() -> None:
    """Ten times the rows at one depth take ten times as long, whatever the caches' rates are."""
    rates = tuple(
        Rate(kind="memory", by="numpy", size=size, value=value, spread_ratio=0.0)
        for size, value in ((1e5, 1e11), (1e9, 1e9))
    )
    fit = TrainerFit(
        trainer="trees",
        step_overhead_s=0.0,
        layer_overhead_s=0.0,
        gemm_ratio=0.0,
        activation_ratio=1.0,
        optimizer_ratio=0.0,
        error_ratio=0.05,
        base_memory_bytes=0.0,
        memory_ratio=0.0,
    )
    machine = replace(PROFILE, rates=rates, fits=(fit,))
    few, many = (
        predict_step(trees_step_work(rows, 10, 16), machine, "trees").step_s
        for rows in (1000, 10_000)
    )
    assert many == pytest.approx(10 * few)
