"""Kernels of a layer: their bounds, what makes them slower, and what never does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.operators import Gemm, attention_gemms
from gpuyard.perf.roofline import (
    attention_ratio,
    cast_s,
    elementwise_s,
    flash_attention_s,
    gemm_s,
    training_gemms_s,
    unfused_attention_s,
)

from .cases import case, changed, chip, number, scaled

CONSTANTS = read_calibration().constants
sizes = st.integers(1, 40_000)
counts = st.sampled_from((1, 8, 64))
chips = st.sampled_from(("a100-80gb", "h100-sxm", "b200", "gb300", "mi300x", "tpu-v5p"))
more = st.floats(1.0, 10.0)


def seconds(
    m: float, n: float, k: float, count: float = 1.0, on: str = "a100-80gb", **times: float
) -> float:
    part = chip(on)
    for name, factor in times.items():
        part = scaled(part, factor, name)
    return float(gemm_s(number(m), number(n), number(k), number(count), part, CONSTANTS))


@given(sizes, sizes, sizes, counts, chips)
def test_gemm_never_exceeds_peak(m: int, n: int, k: int, count: int, on: str) -> None:
    part = chip(on)
    flop_s = 2.0 * m * n * k * count / float(part.gemm_flop_per_s * part.gemm_ratio)
    bytes_s = 2.0 * (m * k + k * n + m * n) * count / float(part.hbm_bytes_per_s)
    assert seconds(m, n, k, count, on) >= max(flop_s, bytes_s)


@given(sizes, sizes, sizes, counts, chips, more)
def test_faster_chips_are_never_slower(
    m: int, n: int, k: int, count: int, on: str, times: float
) -> None:
    usual = seconds(m, n, k, count, on)
    assert seconds(m, n, k, count, on, gemm_flop_per_s=times) <= usual
    assert seconds(m, n, k, count, on, hbm_bytes_per_s=times) <= usual


@given(sizes, sizes, sizes, chips, st.integers(1, 5000))
def test_more_rows_and_longer_sums_are_never_quicker(
    m: int, n: int, k: int, on: str, added: int
) -> None:
    usual = seconds(m, n, k, on=on) * (1 - 1e-12)
    assert seconds(m + added, n, k, on=on) >= usual
    assert seconds(m, n, k + added, on=on) >= usual


def test_large_gemm_runs_at_calibrated_rate() -> None:
    part, size = chip("a100-80gb"), 128 * 108  # whole tiles, whole waves
    rate = 2.0 * size**2 * 65536 / seconds(size, size, 65536)
    assert rate == pytest.approx(float(part.gemm_flop_per_s * part.gemm_ratio), rel=0.01)


def test_partly_filled_last_wave_costs_time() -> None:
    whole = seconds(128 * 108, 256, 4096)  # a tile for every multiprocessor
    assert seconds(128 * 109, 256, 4096) > 1.1 * whole
    on_tpu = seconds(128 * 109, 256, 4096, on="tpu-v5p") / seconds(
        128 * 108, 256, 4096, on="tpu-v5p"
    )
    assert on_tpu == pytest.approx(109 / 108, rel=0.01)  # no waves there


def test_nothing_takes_no_time() -> None:
    assert seconds(128, 128, 128, 0) == 0.0
    assert [float(part) for part in training_gemms_s((), chip("h100-sxm"), CONSTANTS)] == [
        0.0,
        0.0,
        0.0,
    ]


def test_weight_gradient_accumulates_in_fp32() -> None:
    thin = Gemm(m=number(8), n=number(65536), k=number(8192), count=number(1))  # bound by memory
    forward, _, wgrad = (
        float(part) for part in training_gemms_s((thin,), chip("h100-sxm"), CONSTANTS)
    )
    assert wgrad == pytest.approx(
        4.0 * forward, rel=0.05
    )  # read and written, where forward reads two bytes


@given(chips)
def test_fused_attention(on: str) -> None:
    given_case = case("llama-3-8b", on)
    forward, backward = flash_attention_s(
        given_case.arch, given_case.layout, given_case.chip, given_case.soft, CONSTANTS
    )
    assert backward == pytest.approx(2.5 * forward)
    long = changed(given_case.arch, packed_sequence_tokens=4096.0, attention_tokens=4096.0)
    twice, _ = flash_attention_s(
        long, given_case.layout, given_case.chip, given_case.soft, CONSTANTS
    )
    assert twice == pytest.approx(4.0 * forward)
    assert 0.0 < attention_ratio(given_case.chip, CONSTANTS) < 1.0


@pytest.mark.parametrize(
    ("on", "slower"), [("h100-sxm", True), ("a100-80gb", False), ("b200", False)]
)
def test_only_hopper_waits_for_its_own_kernels(on: str, slower: bool) -> None:
    given_case = case("llama-3-8b", on)
    times = [
        float(
            flash_attention_s(given_case.arch, given_case.layout, given_case.chip, soft, CONSTANTS)[
                0
            ]
        )
        for soft in (changed(given_case.soft, flash2=0.0), changed(given_case.soft, flash2=1.0))
    ]
    assert (times[1] > times[0]) is slower


def test_attention_that_writes_its_scores_costs_more() -> None:
    given_case = case("gpt-3-175b", tp=8)
    args = (given_case.arch, given_case.layout, given_case.chip)
    fused = sum(float(part) for part in flash_attention_s(*args, given_case.soft, CONSTANTS))
    assert sum(float(part) for part in unfused_attention_s(*args, CONSTANTS)) > fused


def test_rows_that_are_not_aligned_miss_the_tensor_cores() -> None:
    given_case = case("gpt-3-175b", tp=8)
    times = [
        float(
            unfused_attention_s(
                changed(given_case.arch, head_dim=d), given_case.layout, given_case.chip, CONSTANTS
            )[0]
        )
        for d in (100.0, 104.0)
    ]
    assert times[0] > times[1]


def test_elementwise_traffic() -> None:
    given_case = case("gpt-3-175b", tp=8)
    args = (given_case.arch, given_case.layout, given_case.chip)
    fused, backward = elementwise_s(*args, number(0), CONSTANTS)
    unfused, _ = elementwise_s(*args, number(1), CONSTANTS)
    assert backward == pytest.approx(2.0 * fused)
    assert unfused == pytest.approx(1.5 * fused)
    split = changed(given_case.layout, seq_parallel=1.0)
    assert elementwise_s(given_case.arch, split, given_case.chip, number(0), CONSTANTS)[0] < fused


def test_only_low_precision_is_quantised() -> None:
    given_case = case("llama-3-8b", "h100-sxm")
    products = attention_gemms(given_case.arch, given_case.layout)
    assert np.allclose(cast_s(products, chip("h100-sxm", "bf16"), CONSTANTS), 0.0)
    plain, rowwise = (
        sum(cast_s(products, chip("h100-sxm", kind), CONSTANTS)) for kind in ("fp8", "fp8-row")
    )
    assert 0.0 < plain < rowwise
