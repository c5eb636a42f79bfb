"""Batches and learning rates are functions of seed and step."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.learn.networks.order import learning_rate, order_of
from gpuyard.learn.trainers.network_settings import GradientTrainingSpec


@settings(max_examples=40)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(0, 99),
    st.integers(0, 2**31),
)
def test_batches_are_the_same_for_any_number_of_processes(
    parts: int, accumulate: int, micro_batch: int, more: int, seed: int
) -> None:
    batch = parts * accumulate * micro_batch
    rows = batch + more
    spec = GradientTrainingSpec(batch=batch, accumulate=accumulate, epochs=2)
    alone = order_of(spec, rows=rows, seed=seed, part=0, parts=1)
    together = [
        order_of(spec, rows=rows, seed=seed, part=part, parts=parts) for part in range(parts)
    ]
    for step in range(1, alone.steps + 1):
        joined = np.concatenate([order.of(step) for order in together], axis=1)
        assert np.array_equal(joined, alone.of(step))
    first = np.concatenate([alone.of(step).ravel() for step in range(1, alone.steps_per_epoch + 1)])
    assert len(set(first.tolist())) == len(first) == alone.steps_per_epoch * batch
    assert first.max() < rows


def test_order_differs_between_epochs_and_seeds() -> None:
    spec = GradientTrainingSpec(batch=16, epochs=2)
    order = order_of(spec, rows=64, seed=1, part=0, parts=1)
    assert not np.array_equal(order.of(1), order.of(5))
    assert not np.array_equal(order.of(1), order_of(spec, rows=64, seed=2, part=0, parts=1).of(1))


def test_indivisible_batch_raises_input_error_with_a_multiple() -> None:
    with pytest.raises(InputError, match="multiple of 4"):
        order_of(GradientTrainingSpec(batch=30, accumulate=2), rows=100, seed=0, part=0, parts=2)
    with pytest.raises(InputError, match="cannot be split into 8"):
        order_of(GradientTrainingSpec(batch=32), rows=7, seed=0, part=0, parts=8)


def test_batch_larger_than_the_data_uses_all_rows() -> None:
    assert (
        order_of(GradientTrainingSpec(batch=64, epochs=3), rows=50, seed=0, part=0, parts=1).steps
        == 3
    )


def test_learning_rate_warms_up_and_follows_its_schedule() -> None:
    spec = GradientTrainingSpec(learning_rate=1.0, warmup=4, schedule="cosine")
    rates = [learning_rate(spec, step, 20) for step in range(1, 21)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert all(first > second for first, second in itertools.pairwise(rates[4:]))
    assert 0 < rates[-1] < 0.05
    assert learning_rate(GradientTrainingSpec(learning_rate=2.0), 7, 20) == 2.0
    assert learning_rate(
        GradientTrainingSpec(learning_rate=1.0, schedule="linear"), 11, 20
    ) == pytest.approx(0.5)
