"""The calendar: events come out in order of time, however far ahead they were put in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.jit import jit
from gpuyard.simulate.network import single_switch
from gpuyard.simulate.packet.build_state import build
from gpuyard.simulate.packet.calendar import next_batch, return_row, schedule, take_row
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.settings import PacketSettings
from gpuyard.simulate.packet.state import batch, events
from gpuyard.simulate.routes import routes_of
from gpuyard.simulate.traffic import traffic_of


@jit
def put(head: npt.NDArray[np.void], time: int, mark: int) -> None:
    """Plans an event with a mark."""
    s: Row = head[0]
    row = take_row(s)
    events(s, row).seq = mark
    schedule(s, row, time)


@jit
def take(head: npt.NDArray[np.void], until: int, found: npt.NDArray[np.int64]) -> int:
    """Takes the next event that begins before `until`; 0 if there is none."""
    s: Row = head[0]
    if s.batch_next == s.batch_end and not next_batch(s, until):
        return 0
    row = batch(s, s.batch_next).row
    s.batch_next += 1
    s.now = events(s, row).time
    found[0], found[1] = s.now, events(s, row).seq
    return_row(s, row)
    return 1


TIMES = st.one_of(st.integers(0, 100), st.integers(0, 10**6), st.integers(0, 10**13))


@settings(max_examples=60, deadline=None)
@given(
    first=st.lists(TIMES, min_size=1, max_size=200),
    more=st.lists(st.tuples(st.integers(0, 200), TIMES), max_size=60),
)
def test_events_come_in_order_of_time_and_of_planning(
    first: list[int], more: list[tuple[int, int]]
) -> None:
    network = single_switch(2, rate_bits_per_s=400e9, delay_s=1e-6)
    state = build(network, routes_of(network), traffic_of([0], [1], 4096), PacketSettings())
    found = np.zeros(2, dtype=np.int64)
    planned = []
    for time in first:
        put(state.head, time, len(planned))
        planned.append(time)
    seen: list[tuple[int, int]] = []
    while take(state.head, 2**61, found):
        seen.append((int(found[0]), int(found[1])))
        for place, ahead in more:
            if place == len(seen):
                put(state.head, seen[-1][0] + ahead, len(planned))
                planned.append(seen[-1][0] + ahead)
    assert [time for time, _ in seen] == sorted(planned)
    assert sorted(mark for _, mark in seen) == list(range(len(planned)))
    assert all(planned[mark] == time for time, mark in seen)


@pytest.mark.parametrize("count", [3, 300])
def test_equal_times_come_as_they_were_planned(count: int) -> None:
    network = single_switch(2, rate_bits_per_s=400e9, delay_s=1e-6)
    state = build(network, routes_of(network), traffic_of([0], [1], 4096), PacketSettings())
    found, seen = np.zeros(2, dtype=np.int64), []
    for mark in range(count):
        put(state.head, 500_000, mark)
    while take(state.head, 2**61, found):
        seen.append(int(found[1]))
    assert seen == list(range(count))


def test_nothing_is_taken_from_beyond_the_time_given() -> None:
    network = single_switch(2, rate_bits_per_s=400e9, delay_s=1e-6)
    state = build(network, routes_of(network), traffic_of([0], [1], 4096), PacketSettings())
    found = np.zeros(2, dtype=np.int64)
    put(state.head, 10**9, 0)
    assert not take(state.head, 10**9, found)
    put(state.head, 10**6, 1)
    assert take(state.head, 10**9, found)
    assert found[1] == 1
    assert not take(state.head, 10**9, found)
    assert take(state.head, 2 * 10**9, found)
    assert found[0] == 10**9
