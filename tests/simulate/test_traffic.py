"""Traffic: patterns are what they say, and traffic that does not fit is refused whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.simulate.traffic import all_to_all, incast, permutation, traffic_of


@settings(max_examples=20, deadline=None)
@given(hosts=st.integers(2, 300), seed=st.integers(0, 2**32))
def test_in_a_permutation_everyone_sends_and_receives_once_and_not_to_itself(
    hosts: int, seed: int
) -> None:
    traffic = permutation(hosts, 4096, seed=seed)
    assert sorted(traffic.source) == sorted(traffic.target) == list(range(hosts))
    assert np.all(traffic.source != traffic.target)
    assert np.array_equal(traffic.target, permutation(hosts, 4096, seed=seed).target)
    traffic.check(hosts)


def test_all_to_all_holds_every_pair_once() -> None:
    traffic = all_to_all(7, 10)
    assert (
        len({*zip(traffic.source.tolist(), traffic.target.tolist(), strict=True)})
        == 42
        == traffic.flow_count
    )
    assert traffic.total_bytes == 420


def test_incast_has_one_target_and_distinct_senders() -> None:
    traffic = incast(9, 10, target=4, senders=5)
    assert set(traffic.target) == {4}
    assert traffic.source.tolist() == [0, 1, 2, 3, 5]


def test_all_problems_are_reported_together() -> None:
    traffic = traffic_of(
        [0, 1, 2], [9, 1, 0], [1, 1, 0], start_s=[0.0, 0.0, -1.0], after=((), (5,), ())
    )
    with pytest.raises(InputError) as caught:
        traffic.check(4)
    told = str(caught.value)
    for words in (
        "outside the network",
        "its source is its target",
        "nothing to send",
        "negative start",
        "waits for one",
    ):
        assert words in told


def test_flow_cannot_wait_for_itself() -> None:
    with pytest.raises(InputError, match="waits for itself"):
        traffic_of([0], [1], 1, after=((0,),)).check(2)
