"""Validation rows, and the ranks of a process."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.learn.ranks import Ranks, ranks_of
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import TabularData, TokenData, TrainingInputs
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.learn.training_data import with_validation


def spec(ratio: float, seed: int = 0) -> TrainSpec:
    return TrainSpec(trees=TreesSpec(), validation_ratio=ratio, seed=seed)


def rows_of(table: object) -> set[int]:
    assert isinstance(table, TabularData)
    return set(table.x[:, 0].astype(int).tolist())


@settings(max_examples=30)
@given(st.floats(0.05, 0.9), st.integers(0, 2**31), st.integers(20, 200))
def test_validation_split_is_disjoint_and_stratified(ratio: float, seed: int, rows: int) -> None:
    y = (np.arange(rows) % 4 == 0).astype(np.int64)
    x = np.arange(rows, dtype=np.float32)[:, None]
    table = TabularData(x=x, y=y, names=("row",), problem="classification", classes=("no", "yes"))
    data = with_validation(TrainingInputs(train=table), spec(ratio, seed))
    assert isinstance(data.validation, TabularData)
    held_out, left = rows_of(data.validation), rows_of(data.train)
    assert not held_out & left
    assert held_out | left == set(range(rows))
    assert data.validation.y is not None
    assert abs(int(data.validation.y.sum()) - ratio * int(y.sum())) <= 0.5
    again = with_validation(TrainingInputs(train=table), spec(ratio, seed))
    assert rows_of(again.validation) == held_out


def test_validation_split_keeps_groups_together(numbers: TabularData) -> None:
    groups = np.arange(len(numbers.x)) // 8
    data = with_validation(
        TrainingInputs(train=dataclasses.replace(numbers, groups=groups)), spec(0.25)
    )
    assert isinstance(data.train, TabularData)
    assert isinstance(data.validation, TabularData)
    assert data.train.groups is not None
    assert data.validation.groups is not None
    assert not set(data.train.groups) & set(data.validation.groups)
    assert len(set(data.validation.groups)) == 5


def test_validation_split_of_sequences(tokens: TokenData) -> None:
    data = with_validation(TrainingInputs(train=tokens), spec(0.25))
    assert isinstance(data.validation, TokenData)
    assert (len(data.train), len(data.validation)) == (18, 6)  # type: ignore[arg-type]
    assert data.validation.of(np.arange(6)).shape == (6, 17)
    assert data.validation.take(np.array([2])).of(np.zeros((1, 1), dtype=np.intp)).shape == (
        1,
        1,
        17,
    )


def test_validation_ratio_of_one_raises_input_error(binary: TabularData) -> None:
    with pytest.raises(InputError, match="leaves no training rows"):
        with_validation(TrainingInputs(train=binary), spec(1.0))


def test_ranks_are_read_from_the_environment() -> None:
    environment = {
        "RANK": "3",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "MASTER_ADDR": "host",
        "MASTER_PORT": "7",
    }
    assert ranks_of(environment) == Ranks(rank=3, world=8, local_rank=1, address="host", port=7)
    assert ranks_of({}) == Ranks()
    with pytest.raises(InputError, match="not below WORLD_SIZE"):
        ranks_of({"RANK": "8", "WORLD_SIZE": "8"})
    with pytest.raises(InputError, match="not an integer"):
        ranks_of({"RANK": "first"})
