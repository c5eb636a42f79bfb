"""Connection matrices: what is written is read, csg-htsim's own forms are understood, errors name line and fix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.simulate.htsim_matrix import read_matrix, write_matrix
from gpuyard.simulate.traffic import FlowSet, traffic_of

RING = """Nodes 4
Connections 3
Triggers 2
0->1 id 1 start 0 size 4194304 send_done_trigger 1
1->2 id 2 trigger 1 size 4194304 send_done_trigger 2
2->3 id 3 trigger 2 size 4194304
trigger id 1 oneshot
trigger id 2 oneshot
"""


@st.composite
def chains(draw: st.DrawFn) -> FlowSet:
    """Flows that wait for earlier ones, no two for the same."""
    hosts, flows = 8, draw(st.integers(1, 12))
    source = [draw(st.integers(0, hosts - 1)) for _ in range(flows)]
    target = [(each + draw(st.integers(1, hosts - 1))) % hosts for each in source]
    size = [draw(st.integers(1, 10**9)) for _ in range(flows)]
    free = list(range(flows))
    after: list[tuple[int, ...]] = []
    for flow in range(flows):
        some = draw(st.integers(0, 2))
        mine = [each for each in free if each < flow][:some]
        free = [each for each in free if each not in mine]
        after.append(tuple(mine))
    start = [0.0 if waits else draw(st.integers(0, 10**9)) * 1e-12 for waits in after]
    return traffic_of(source, target, size, start_s=start, after=tuple(after))


@settings(max_examples=60, deadline=None)
@given(traffic=chains())
def test_matrix_round_trips(traffic: FlowSet) -> None:
    matrix = read_matrix(write_matrix(traffic, 8))
    assert matrix.host_count == 8
    for field in ("source", "target", "size_bytes", "after_index", "after"):
        assert np.array_equal(getattr(matrix.traffic, field), getattr(traffic, field)), field
    assert matrix.traffic.start_s == pytest.approx(traffic.start_s, abs=1e-12)


def test_triggers_become_waits() -> None:
    traffic = read_matrix(RING).traffic
    assert traffic.after_index.tolist() == [0, 0, 1, 2]
    assert traffic.after.tolist() == [0, 1]
    assert traffic.channel.tolist() == [1, 2, 3]


def test_barrier_waits_for_its_count() -> None:
    text = """Nodes 3
Connections 3
Triggers 1
0->1 id 1 start 0 size 10 send_done_trigger 7
1->2 id 2 start 0 size 10 send_done_trigger 7
2->0 id 3 trigger 7 size 10
trigger id 7 count 2 barrier
"""
    assert read_matrix(text).traffic.after.tolist() == [0, 1]


def test_plain_matrix_without_ids_is_read() -> None:
    traffic = read_matrix(
        "Nodes 16\nConnections 2\n0->13 start 0 size 2000000\n13->0 start 5000 size 2000000\n\n"
    ).traffic
    assert traffic.source.tolist() == [0, 13]
    assert traffic.start_s.tolist() == [0.0, 5e-9]


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("0->1 id", "0-1 id", 4, "begins no line"),
        ("0->1 id", f"0->{'9' * 400} id", 4, "too large"),
        ("size 4194304 send_done_trigger 1", "send_done_trigger 1", 4, "nothing to send"),
        ("size 4194304 send_done_trigger 1", "size big send_done_trigger 1", 4, "no number"),
        ("id 3 trigger 2", "id 3 trigger 9", 6, "trigger 9 is not there"),
        ("id 3 trigger 2", "id 2 trigger 2", 6, "that of line 5 too"),
        ("1->2 id 2 trigger 1", "1->2 id 2 trigger 1 start 0", 5, "start and trigger"),
        ("id 1 start 0 size", "id 1 start 0 colour 3 size", 4, "no key"),
        ("trigger id 2 oneshot", "trigger id 2", 8, "incomplete trigger"),
        ("trigger id 2 oneshot", "trigger id 2 count 2 barrier", 8, "fired by 1"),
        ("trigger id 2 oneshot", "failure switch_type TOR switch_id 0 link_id 1", 8, "a failure"),
        ("Connections 3", "Connections 4", 1, "says 4, the file has 3"),
        ("Nodes 4", "Nodes", 1, "without a count"),
        ("Nodes 4", "# 4", 1, "no Nodes"),
    ],
)
def test_error_names_line(old: str, new: str, line: int, what: str) -> None:
    assert old in RING
    with pytest.raises(InputError) as caught:
        read_matrix(RING.replace(old, new, 1), "ring.cm")
    assert any(
        problem.where == f"ring.cm:{line}" and what in problem.what
        for problem in caught.value.problems
    ), str(caught.value)
    assert all(problem.fix for problem in caught.value.problems)


def test_hosts_outside_the_network_are_refused() -> None:
    with pytest.raises(InputError, match="outside the network"):
        read_matrix(RING.replace("Nodes 4", "Nodes 3"))


def test_traffic_beyond_the_format_is_refused() -> None:
    with pytest.raises(InputError, match="cannot say"):
        write_matrix(traffic_of([0, 1], [1, 2], 1, start_s=[0.0, 1.0], after=((), (0,))), 3)
    with pytest.raises(InputError, match="several flows wait"):
        write_matrix(traffic_of([0, 1, 1], [1, 2, 0], 1, after=((), (0,), (0,))), 3)
