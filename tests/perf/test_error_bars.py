"""Error bars of training and collective predictions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from gpuyard.perf.chip_kernels import read_silicon
from gpuyard.perf.error_bars import (
    KINDS,
    LEVELS,
    ErrorBar,
    collective_error_bar,
    distance,
    model_key,
    run_kind,
    training_error_bar,
)
from gpuyard.perf.profiles import find_profile

H100 = next(silicon for silicon in read_silicon() if silicon.name == "h100")
MEASURED, UNMEASURED = find_profile("megatron-bridge-26.06"), find_profile("unknown-gpu")


@pytest.mark.parametrize("kind", KINDS)
def test_error_bars_contain_zero_and_widen_with_distance(kind: str) -> None:
    bars = [training_error_bar(level, kind) for level in LEVELS]  # type: ignore[arg-type]
    for near, far in itertools.pairwise(bars):
        assert far.low <= near.low < 0.0 < near.high <= far.high
    assert bars[-1].high - bars[-1].low > bars[0].high - bars[0].low


def test_profile_with_many_runs_has_its_own_error_bar() -> None:
    own = training_error_bar("run", "dense", "composer-fsdp-2023")
    assert own != training_error_bar("run", "dense")
    assert training_error_bar("stack", "dense", "composer-fsdp-2023") == training_error_bar(
        "stack", "dense"
    )


def test_distance_grows_with_what_was_not_measured() -> None:
    titan = find_profile("torchtitan-compile")
    h100_96gb = next(silicon for silicon in read_silicon() if silicon.name == "h100-96gb")
    assert distance(h100_96gb, titan, "dense") == "run"
    assert distance(h100_96gb, titan, "adapters") == "group"
    assert distance(h100_96gb, titan, "dense", unseen=True) == "release"
    assert distance(H100, UNMEASURED, "dense") == "stack"
    assert distance(H100, replace(MEASURED, fitted_on=()), "moe") == "release"
    assert distance(H100, replace(UNMEASURED, scalar=1.1), "dense") == "group"
    assert distance(replace(H100, calibrated=False), MEASURED, "dense") == "chip"


@pytest.mark.parametrize("kind", KINDS)
def test_new_model_widens_the_error_bar(kind: str) -> None:
    for level in LEVELS:
        bar = training_error_bar(level, kind)  # type: ignore[arg-type]
        new = training_error_bar(level, kind, model=model_key(kind, 3, 5))  # type: ignore[arg-type]
        assert new.low <= bar.low
        assert new.high >= bar.high
    near, new = (
        training_error_bar("run", "adapters", model=model_key("adapters", layers, 8192))
        for layers in (80, 81)
    )
    assert new.high > near.high


def test_kinds() -> None:
    tpu = next(silicon for silicon in read_silicon() if silicon.generation == "tpu")
    assert run_kind(H100, moe=False) == "dense"
    assert run_kind(H100, moe=True) == "moe"
    assert run_kind(tpu, moe=False) == "tpu"
    assert run_kind(H100, moe=True, adapters=True) == "adapters"


def test_interval_is_asymmetric_and_bounds_are_factors() -> None:
    bar = ErrorBar(low=-0.1, high=0.3)
    interval = bar.around(2.0)
    assert interval.low == pytest.approx(2.0 / (1.0 + bar.low_ratio))
    assert interval.high == pytest.approx(2.0 * (1.0 + bar.high_ratio))
    assert bar.widened(2.0).around(1.0).high == pytest.approx(math.exp(0.6))


def test_collective_error_bars_narrow_with_size_and_widen_with_distance() -> None:
    small, large = collective_error_bar("small"), collective_error_bar("large")
    assert large.high < small.high
    assert collective_error_bar("large-unmeasured").high > large.high
