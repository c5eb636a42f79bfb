"""What a chip's memory holds beside the weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.perf.inference.serving_cases import Served, any_served, served

from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.memory import (
    StepLimits,
    kv_cache_capacity,
    limits,
    weight_bytes,
    with_graphs,
)
from gpuyard.perf.inference.serving_engine import find_engine


@settings(max_examples=40, deadline=None)
@given(any_served(), st.integers(1, 30_000))
def test_blocks_fit_into_the_cache(case: Served, tokens: int) -> None:
    held = case.room()
    assert held.blocks * held.block_tokens * held.token_bytes <= held.cache_bytes + 1.0
    count = held.sequences(tokens)
    assert count * (tokens * held.token_bytes + held.sequence_bytes) <= held.cache_bytes + 1.0
    assert held.sequences(tokens + 1) <= count


def test_weights_of_a_model_are_shared_out_and_embeddings_stay_in_16_bits() -> None:
    case = served("llama-3.1-70b", weights="fp8")
    whole = weight_bytes(case.shape, case.precision, case.layout)
    table = 2 * 128256 * 8192
    assert whole == (case.shape.parameters - table) + 2.0 * table
    split = served("llama-3.1-70b", weights="fp8", tp=8)
    assert weight_bytes(split.shape, split.precision, split.layout) == whole / 8


def test_70b_model_in_fp8_leaves_little_on_h100_and_much_on_h200() -> None:
    tight, ample = (
        served("llama-3.1-70b", chip, "fp8", "trt-bench", "fp8").room()
        for chip in ("h100-sxm", "h200-sxm")
    )
    assert 0 < tight.sequences(4096) < 40
    assert ample.sequences(4096) > 5 * tight.sequences(4096)


def test_model_that_does_not_fit_has_no_blocks() -> None:
    assert served("llama-3.1-70b", "l4", "bf16").room().blocks == 0


def test_memory_share_is_of_free_or_total_memory() -> None:
    free, total = (
        served("llama-3.1-8b", "h100-sxm", "bf16", engine) for engine in ("trt-torch-1", "vllm-v1")
    )
    held, whole = free.room(), total.room()
    assert held.cache_bytes == pytest.approx(0.9 * (held.spare_bytes - held.reserve_bytes))
    used = whole.weight_bytes + whole.reserve_bytes
    assert whole.cache_bytes == pytest.approx(0.9 * total.chip.memory_bytes - used)


def test_buffers_that_are_not_used_take_cache_for_every_sequence() -> None:
    case = served("llama-3.1-70b", "h100-sxm", "fp8", "trt-bench", tp=8)
    spare = replace(case, engine=replace(case.engine, spare_logits=1))
    step = StepLimits(sequences=8192, budget_tokens=16384)
    lost = spare.room(step).reserve_bytes - case.room(step).reserve_bytes
    assert lost == pytest.approx(4 * 128256 * 8192)


def test_static_share_holds_only_weights_and_cache() -> None:
    case = served("llama-3.1-8b", "h100-sxm", "bf16", "sglang")
    held = case.room()
    assert held.cache_bytes == pytest.approx(0.88 * case.chip.memory_bytes - held.weight_bytes)


def test_windowed_layers_hold_full_cache_unless_engine_frees_it() -> None:
    freed, kept = (
        served("gpt-oss-120b", "b200", "mxfp4", engine).room()
        for engine in ("vllm-v1", "trt-torch-1")
    )
    assert kept.token_bytes == pytest.approx(2.0 * freed.token_bytes)
    assert kept.sequence_bytes == 0.0
    assert freed.sequence_bytes > 0.0


def test_tuned_engine_sizes_step_from_cache() -> None:
    engine = find_engine("trt-torch-1")
    held = served("llama-3.1-8b", "h100-sxm", "bf16", "trt-torch-1").room()
    short, long = limits(engine, held, 128, 128), limits(engine, held, 20000, 2000)
    assert short.sequences > long.sequences >= 64
    assert short.sequences % 32 == 0
    assert 2048 <= long.budget_tokens <= 32768


def test_larger_buffers_leave_less_cache() -> None:
    case = served("llama-3.1-8b", "h100-sxm", "bf16", "trt-bench")
    small = limits(case.engine, case.room(), 20000, 2000)
    parts = (case.shape, case.chip, case.precision, case.layout, case.engine, read_calibration())
    large = limits(case.engine, case.room(), 128, 128)
    assert (
        kv_cache_capacity(*parts, large).cache_bytes < kv_cache_capacity(*parts, small).cache_bytes
    )


def test_largest_graph_covers_max_sequences_or_nearest_listed_size() -> None:
    engine, plain = find_engine("trt-torch"), find_engine("vllm-v1")
    listed = replace(engine, graphs_listed=True)
    sizes = {n: StepLimits(sequences=n, budget_tokens=8192) for n in (192, 400, 500, 600, 4096)}
    assert [with_graphs(engine, sizes[n]).graph_sequences for n in sizes] == [
        192,
        400,
        500,
        600,
        4096,
    ]
    assert [with_graphs(listed, sizes[n]).graph_sequences for n in sizes] == [
        128,
        384,
        384,
        512,
        4096,
    ]
    assert with_graphs(engine, sizes[4096], stages=4).graph_sequences == 1024
    assert with_graphs(plain, sizes[192]) == plain
