"""Groups of a layout: as Megatron counts ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.simulate.collectives.placement import placement

AXES = ("tp", "cp", "dp", "pp", "ep", "expert-dp")


def test_megatron_numbers() -> None:
    # Megatron-LM, parallel_state.initialize_model_parallel: its own example of 16 ranks, tp 2, pp 4
    layout = placement(tp=2, pp=4, dp=2)
    assert layout.groups("tp").tolist() == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
        [8, 9],
        [10, 11],
        [12, 13],
        [14, 15],
    ]
    assert layout.groups("dp").tolist() == [
        [0, 2],
        [1, 3],
        [4, 6],
        [5, 7],
        [8, 10],
        [9, 11],
        [12, 14],
        [13, 15],
    ]
    assert layout.groups("pp").tolist() == [
        [0, 4, 8, 12],
        [1, 5, 9, 13],
        [2, 6, 10, 14],
        [3, 7, 11, 15],
    ]


def test_experts_take_the_data_ranks() -> None:
    layout = placement(tp=1, dp=8, pp=2, ep=4)
    assert layout.groups("ep").tolist()[:2] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert layout.groups("expert-dp").tolist()[:2] == [[0, 4], [1, 5]]


def test_another_order() -> None:
    layout = placement(tp=2, pp=2, dp=2, order="tp-cp-ep-pp-dp")
    assert layout.groups("pp").tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert layout.groups("dp").tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


@given(
    *(st.sampled_from([1, 2, 3, 4]) for _ in range(4)),
    st.permutations(["tp", "cp", "ep", "dp", "pp"]),
)
@settings(max_examples=50, deadline=None)
def test_every_rank_is_in_one_group_of_each_kind(tp, cp, dp, pp, order) -> None:
    layout = placement(tp=tp, cp=cp, dp=dp, pp=pp, ep=dp, order="-".join(order))
    for axis in AXES:
        groups = layout.groups(axis)
        assert sorted(groups.ravel()) == list(range(layout.rank_count))
    ranks = np.arange(layout.rank_count)
    assert (layout.server(ranks) * 8 + layout.rail(ranks) == ranks).all()


def test_placement_that_does_not_fit_raises_input_error() -> None:
    with pytest.raises(InputError) as error:
        placement(tp=0, order="tp-dp")
    assert len(error.value.problems) == 2
    with pytest.raises(InputError, match="does not divide"):
        placement(dp=3, ep=2)
