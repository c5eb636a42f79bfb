"""Memory of the most-loaded chip: the parts add up, the equations it came from, and what saves memory."""

from __future__ import annotations

import csv
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.perf.memory import Memory, layer_activation_bytes, memory, min_recompute
from gpuyard.perf.runs import read_runs
from gpuyard.perf.score import predicted_bytes

from .cases import CATALOG, Case, case, cases, changed, number, scaled

CURATED = Path(__file__).parent.parent / "accuracy" / "training_runs.csv"
more = st.floats(1.0, 10.0)
STATES = ("parameter_bytes", "gradient_bytes", "optimizer_bytes")


def states(drawn: Case) -> float:
    """Weights, gradients and optimizer."""
    found = drawn.memory()
    return sum(float(getattr(found, name)) for name in STATES)


@given(cases())
def test_parts_add_up_and_none_is_negative(drawn: Case) -> None:
    found = drawn.memory()
    parts = [float(getattr(found, field.name)) for field in fields(Memory)]
    assert float(found.total_bytes) == pytest.approx(sum(parts), rel=1e-12)
    assert np.isfinite(parts).all()
    assert min(parts) >= 0.0


@given(cases(), more)
def test_speed_needs_no_memory(drawn: Case, times: float) -> None:
    rates = (
        "gemm_flop_per_s",
        "bf16_flop_per_s",
        "hbm_bytes_per_s",
        "scaleup_bytes_per_s",
        "nic_bytes_per_s",
    )
    assert (
        replace(drawn, chip=scaled(drawn.chip, times, *rates)).memory_bytes()
        == drawn.memory_bytes()
    )


@given(cases(), st.sampled_from((0.25, 0.5, 0.9)))
def test_recomputing_layers_saves_memory(drawn: Case, share: float) -> None:
    none, some, full = (changed(drawn.layout, recompute_gemm=part) for part in (0.0, share, 1.0))
    needs = [replace(drawn, layout=spread).memory_bytes() for spread in (none, some, full)]
    assert needs[1] <= needs[0]
    assert needs[2] <= needs[0]


@given(cases())
def test_recomputing_parts_saves_memory_or_nothing(drawn: Case) -> None:
    for name in ("recompute_attention", "recompute_elementwise"):
        none, full = changed(drawn.layout, **{name: 0.0}), changed(drawn.layout, **{name: 1.0})
        assert (
            replace(drawn, layout=full).memory_bytes() <= replace(drawn, layout=none).memory_bytes()
        )


@given(cases(), st.sampled_from((2, 4)))
def test_larger_micro_batches_and_longer_samples_need_more(drawn: Case, times: int) -> None:
    large = changed(drawn.layout, micro_batch=float(drawn.layout.micro_batch) * times)
    assert replace(drawn, layout=large).memory_bytes() > drawn.memory_bytes()
    long = changed(
        drawn.arch, packed_sequence_tokens=float(drawn.arch.packed_sequence_tokens) * times
    )
    assert replace(drawn, arch=long).memory_bytes() > drawn.memory_bytes()


@given(cases())
def test_host_memory_relieves_chip_memory(drawn: Case) -> None:
    for name in ("offload_optimizer", "offload_activation"):
        none, full = changed(drawn.layout, **{name: 0.0}), changed(drawn.layout, **{name: 1.0})
        assert (
            replace(drawn, layout=full).memory_bytes() <= replace(drawn, layout=none).memory_bytes()
        )
    away = replace(drawn, layout=changed(drawn.layout, offload_optimizer=1.0)).memory()
    assert away.optimizer_bytes == 0.0


@given(cases())
def test_sharding_saves_memory(drawn: Case) -> None:
    one = changed(drawn.layout, fsdp=0.0, shard_ranks=1.0)
    whole = changed(one, shard_ranks=float(one.dp * one.cp))
    assert states(replace(drawn, layout=whole)) <= states(replace(drawn, layout=one))


def test_fused_layer_matches_korthikanti_without_dropout() -> None:
    """arXiv 2205.05198, eq. 2 and 4: s b h (10 + 24 / t + 5 a s / h t), of which 2 in the 10 are masks of dropout."""
    for tp in (1, 2, 8):
        plain = case("gpt-22b", profile="megatron-2021", tp=tp, micro_batch=4)
        arch, chip, soft = plain.arch, plain.chip, plain.soft
        s, b, h, a = (float(x) for x in (arch.packed_sequence_tokens, 4, arch.hidden, arch.heads))
        found = layer_activation_bytes(arch, plain.layout, chip, soft)
        assert found == pytest.approx(s * b * h * (8 + 24 / tp + 5 * a * s / (h * tp)))
        split = changed(plain.layout, seq_parallel=1.0)
        found = layer_activation_bytes(arch, split, chip, soft)
        assert found == pytest.approx(s * b * h * (32 + 5 * a * s / h) / tp)
        selective = changed(split, recompute_attention=1.0)
        assert layer_activation_bytes(arch, selective, chip, soft) == pytest.approx(
            s * b * h * 32 / tp
        )


def test_states_take_sixteen_bytes_a_parameter() -> None:
    """ZeRO (arXiv 1910.02054, sect. 3.1): 2 of weights, 2 of gradients, 12 of Adam; sharded, only the 12 shrink."""
    shape = next(row for row in CATALOG.models if row.name == "gpt-22b").transformer
    assert shape
    count = shape.parameters() - (2 * shape.layers + 1 + shape.learned_positions) * shape.hidden
    assert states(case("gpt-22b", profile="megatron-2021", tp=8)) == pytest.approx(16 * count / 8)
    shared = case("gpt-22b", tp=8, dp=16, shard_ranks=16)
    assert states(shared) == pytest.approx((4 + 12 / 16) * count / 8)
    whole = case("gpt-22b", profile="torchtitan-compile", dp=4096, fsdp=1, shard_ranks=4096)
    assert states(whole) == pytest.approx(
        16 * count / 4096 + 4 * 2 * count / 48, rel=0.01
    )  # two layers gathered


def test_frozen_weights_have_no_gradients() -> None:
    found = case("llama-3-70b", "h100-sxm", adapters=True, tp=8).memory()
    assert found.gradient_bytes == 0.0
    assert found.optimizer_bytes == 0.0
    assert case(
        "llama-3-70b", "h100-sxm", precision="fp8", adapters=True, tp=8
    ).memory().parameter_bytes == (pytest.approx(found.parameter_bytes / 2))
    four = case("llama-3-70b", "h100-sxm", adapters=True, tp=8)
    four = replace(four, arch=changed(four.arch, frozen_bytes=0.5))
    assert four.memory().parameter_bytes == pytest.approx(found.parameter_bytes / 4)


def test_first_stage_holds_one_micro_batch_per_stage() -> None:
    """1F1B (arXiv 2104.04473, sect. 2.2): at most pp micro-batches are alive, and never more than there are."""
    few, many = (case(tp=8, pp=8, seq_parallel=1, grad_accum=count).memory() for count in (1, 64))
    gathered = 4 * 2 * 2048 * 12288
    assert float(many.activation_bytes - gathered) == pytest.approx(
        8 * float(few.activation_bytes - gathered)
    )
    assert (
        case(tp=8, pp=8, seq_parallel=1, grad_accum=640).memory().activation_bytes
        == many.activation_bytes
    )


@given(cases(models=("gpt-3-175b", "llama-3-70b"), profiles=("nemo-25", "torchtitan-compile")))
def test_smallest_recomputation_that_fits_is_used(drawn: Case) -> None:
    bare = changed(drawn.layout, recompute_gemm=0.0, recompute_attention=0.0)
    share = float(min_recompute(drawn.arch, bare, drawn.chip, drawn.soft))
    need = replace(drawn, layout=bare).memory_bytes()
    assert 0.0 <= share <= 1.0
    assert (share == 0.0) == (need <= 1.15 * drawn.chip.hbm_bytes)


def test_grid_matches_single_layouts() -> None:
    usual = case("deepseek-v3", "h100-sxm", tokens=4096)
    tp, pp, dp = (np.array(values, dtype=float) for values in ((1, 8), (1, 4, 16), (1, 32)))
    grid = replace(usual.layout, tp=tp[:, None, None], pp=pp[:, None], dp=dp, shard_ranks=dp)
    whole = memory(usual.arch, grid, usual.chip, usual.soft).total_bytes
    assert whole.shape == (2, 3, 2)
    for i, j, k in np.ndindex(whole.shape):
        alone = changed(usual.layout, tp=tp[i], pp=pp[j], dp=dp[k], shard_ranks=dp[k])
        assert whole[i, j, k] == pytest.approx(
            replace(usual, layout=alone).memory_bytes(), rel=1e-12
        )


@pytest.mark.parametrize("name", ["bloom-pre-119", "titan-008", "simumax-027"])
def test_published_configurations(name: str) -> None:
    """BLOOM 176B on 384 A100, Llama 3 8B sharded over 128 H100, four layers of Llama 3.1 405B on 8 B200."""
    with CURATED.open(newline="", encoding="utf-8") as file:
        runs = read_runs([row for row in csv.DictReader(file) if row["id"] == name], CATALOG)
    assert len(runs.rows) == 1
    assert predicted_bytes(runs) == pytest.approx(runs.memory_bytes, rel=0.10)


def test_buffers_have_the_shape_of_the_rest() -> None:
    usual = case(tp=8)
    found = memory(
        usual.arch, replace(usual.layout, dp=number(1) * np.ones(3)), usual.chip, usual.soft
    )
    assert np.shape(found.total_bytes) == np.shape(found.buffer_bytes)
