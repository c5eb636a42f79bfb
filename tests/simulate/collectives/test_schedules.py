"""Every rank ends with what the collective promises, whatever order the network delivers in; bytes are the theory's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.simulate.collectives.compile import ALGORITHMS, CollectiveCall, HostGrid, schedule_of
from gpuyard.simulate.collectives.ring import rail_orders
from gpuyard.simulate.collectives.schedule import Schedule, to_traffic
from gpuyard.simulate.collectives.tree import parents, second_parents

SHAPES = [(1, 2), (2, 1), (2, 2), (3, 1), (5, 1), (3, 2), (2, 4), (3, 4), (4, 4), (8, 1), (7, 2)]
GATHERING = [
    ("all-reduce", name) for name in ("ring", "rail-ring", "tree", "halving", "hierarchical")
] + [
    (part, name)
    for part in ("all-gather", "reduce-scatter")
    for name in ("ring", "rail-ring", "hierarchical")
]


def carried(schedule: Schedule, message: int) -> np.ndarray:
    return (
        schedule.first_piece[message]
        + np.arange(schedule.pieces[message]) * schedule.piece_stride[message]
    )


def run(schedule: Schedule, state: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What each rank has at the end: state[rank, piece, contributor] counts; sends and receipts in a random order."""
    waiting = np.diff(schedule.after_index).copy()
    heirs: list[list[int]] = [[] for _ in range(len(schedule))]
    for message in range(len(schedule)):
        for before in schedule.after[
            schedule.after_index[message] : schedule.after_index[message + 1]
        ]:
            heirs[before].append(message)
    ready = [("send", message) for message in np.flatnonzero(waiting == 0)]
    data: dict[int, np.ndarray] = {}
    done = 0
    while ready:
        kind, message = ready.pop(int(rng.integers(len(ready))))
        pieces, source, target = (
            carried(schedule, message),
            schedule.source[message],
            schedule.target[message],
        )
        if kind == "send":
            data[message] = state[source, pieces].copy()
            ready.append(("receive", message))
            continue
        state[target, pieces] = data.pop(message) + (
            state[target, pieces] if schedule.reduces[message] else 0
        )
        done += 1
        for heir in heirs[message]:
            waiting[heir] -= 1
            if not waiting[heir]:
                ready.append(("send", heir))
    assert done == len(schedule), "some messages wait for each other"
    return state


def grid(servers: int, rails: int) -> HostGrid:
    return HostGrid(servers=servers, rails=rails, hosts=np.arange(servers * rails))


@pytest.mark.parametrize(("servers", "rails"), SHAPES)
@pytest.mark.parametrize(("collective", "algorithm"), GATHERING)
@pytest.mark.parametrize("seed", range(3))
def test_every_rank_ends_with_the_sum_or_all_pieces(
    collective, algorithm, servers, rails, seed
) -> None:
    n = servers * rails
    call = CollectiveCall(
        collective=collective, algorithm=algorithm, size_bytes=1.0, channels=2, chunks=2
    )
    schedule = schedule_of(call, grid(servers, rails))
    pieces = schedule.piece_count
    state = np.zeros((n, pieces, n), dtype=int)
    share = pieces // n
    owner = owners(schedule, algorithm, servers, rails)
    if collective == "all-gather":
        for piece in range(pieces):
            state[owner[piece], piece, owner[piece]] = 1
    else:
        for rank in range(n):
            state[rank, :, rank] = 1
    state = run(schedule, state, np.random.default_rng(seed))
    if collective == "all-reduce":
        assert (state == 1).all()
    elif collective == "all-gather":
        for piece in range(pieces):
            assert (state[:, piece, owner[piece]] == 1).all()
    else:
        for piece in range(pieces):
            assert (state[owner[piece], piece] == 1).all()
    assert share >= 1 or algorithm in ("tree", "halving")


def owners(schedule: Schedule, algorithm: str, servers: int, rails: int) -> list[int]:
    """Whose piece each one is."""
    n = servers * rails
    if algorithm != "hierarchical":
        return [piece % n for piece in range(schedule.piece_count)]
    inner = servers * 2  # channels
    return [
        piece % inner % servers * rails + piece % (inner * rails) // inner
        for piece in range(schedule.piece_count)
    ]


@pytest.mark.parametrize("n", [2, 4, 8, 16])
@pytest.mark.parametrize("part", ["all-gather", "reduce-scatter"])
def test_halving_and_doubling_alone(part, n) -> None:
    schedule = schedule_of(
        CollectiveCall(collective=part, algorithm="halving", size_bytes=1.0), grid(n, 1)
    )
    state = np.zeros((n, n, n), dtype=int)
    if part == "all-gather":
        state[np.arange(n), np.arange(n), np.arange(n)] = 1
    else:
        state[np.arange(n), :, np.arange(n)] = 1
    state = run(schedule, state, np.random.default_rng(0))
    for piece in range(n):
        if part == "all-gather":
            assert (state[:, piece, piece] == 1).all()
        else:
            assert (state[piece, piece] == 1).all()


@pytest.mark.parametrize(("servers", "rails"), SHAPES)
@pytest.mark.parametrize("algorithm", ["direct", "pxn"])
def test_all_to_all_brings_every_pair_its_piece(algorithm, servers, rails) -> None:
    n = servers * rails
    schedule = schedule_of(
        CollectiveCall(collective="all-to-all", algorithm=algorithm, size_bytes=1.0),
        grid(servers, rails),
    )
    state = np.zeros((n, n * n, n), dtype=int)
    for source in range(n):
        state[source, np.arange(n) * n + source, source] = 1
    state = run(schedule, state, np.random.default_rng(1))
    for source in range(n):
        for target in range(n):
            assert state[target, target * n + source, source] == 1
    if algorithm == "pxn":
        far = schedule.source // rails != schedule.target // rails
        assert (schedule.source[far] % rails == schedule.target[far] % rails).all()


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_broadcast_reaches_all(algorithm, n) -> None:
    schedule = schedule_of(
        CollectiveCall(collective="broadcast", algorithm=algorithm, size_bytes=1.0, chunks=3),
        grid(n, 1),
    )
    state = np.zeros((n, schedule.piece_count, n), dtype=int)
    state[0, :, 0] = 1
    assert (run(schedule, state, np.random.default_rng(2))[:, :, 0] == 1).all()


def sent(schedule: Schedule, whole: float, n: int) -> np.ndarray:
    traffic = to_traffic(schedule, whole, np.arange(n))
    return np.bincount(traffic.source, traffic.size_bytes, minlength=n)


@pytest.mark.parametrize(("servers", "rails"), [(4, 4), (8, 1), (3, 2), (2, 8)])
def test_bytes_are_the_theory(servers, rails) -> None:
    n = servers * rails
    size = 1 << 24

    def all_sent(collective, algorithm, **more):
        schedule = schedule_of(
            CollectiveCall(collective=collective, algorithm=algorithm, size_bytes=size, **more),
            grid(servers, rails),
        )
        return sent(schedule, size * (n if collective == "all-to-all" else 1), n)

    optimal = size * (n - 1) / n
    for algorithm in ("ring", "rail-ring", "hierarchical"):
        np.testing.assert_allclose(all_sent("all-reduce", algorithm), 2 * optimal, rtol=1e-4)
        np.testing.assert_allclose(all_sent("all-gather", algorithm), optimal, rtol=1e-4)
        np.testing.assert_allclose(all_sent("reduce-scatter", algorithm), optimal, rtol=1e-4)
    if not n & (n - 1):
        np.testing.assert_allclose(all_sent("all-reduce", "halving"), 2 * optimal, rtol=1e-4)
    np.testing.assert_allclose(all_sent("all-reduce", "tree").sum(), 2 * (n - 1) * size, rtol=1e-4)
    assert (
        all_sent("all-reduce", "tree").max() <= 2 * size + 2
    )  # a double tree loads nobody with more than both ways
    np.testing.assert_allclose(all_sent("all-to-all", "direct"), optimal, rtol=1e-4)
    if servers > 1 and rails > 1:
        pxn = all_sent("all-to-all", "pxn")
        far, near = size * (servers - 1) / servers, size * (rails - 1) / rails
        np.testing.assert_allclose(pxn, far + near, rtol=1e-4)


def test_nvls_loads_each_link_with_the_data_and_one_share_of_the_sum() -> None:
    schedule = schedule_of(
        CollectiveCall(collective="all-reduce", algorithm="nvls", size_bytes=800.0), grid(1, 8)
    )
    np.testing.assert_array_equal(sent(schedule, 800.0, 8), 900.0)
    two = schedule_of(
        CollectiveCall(collective="all-reduce", algorithm="nvls", size_bytes=800.0), grid(2, 8)
    )
    far = two.source // 8 != two.target // 8
    assert (
        to_traffic(two, 800.0, np.arange(16)).size_bytes[far].sum() == 2 * 800
    )  # each server sends the sum once


@pytest.mark.parametrize(("servers", "rails"), [(2, 8), (5, 4)])
def test_sharp_sends_the_share_of_each_nic_once(servers: int, rails: int) -> None:
    schedule = schedule_of(
        CollectiveCall(collective="all-reduce", algorithm="sharp", size_bytes=800.0),
        grid(servers, rails),
    )
    far = schedule.source // rails != schedule.target // rails
    sizes = to_traffic(schedule, 800.0, np.arange(servers * rails)).size_bytes
    sent_bytes = np.bincount(schedule.source[far], sizes[far], servers * rails)
    np.testing.assert_allclose(sent_bytes, 800 / rails)


@given(st.integers(2, 200))
@settings(max_examples=60, deadline=None)
def test_two_trees_share_the_inner_ranks(n) -> None:
    for tree in (parents(n), second_parents(n)):
        assert tree.count(-1) == 1
        for rank in range(n):
            seen, at = 0, rank
            while tree[at] >= 0:
                at, seen = tree[at], seen + 1
                assert seen <= 2 * n.bit_length()
    inner = [set(tree) - {-1, tree.index(-1)} for tree in (parents(n), second_parents(n))]
    assert len(inner[0] & inner[1]) <= 1


@given(st.integers(1, 9), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_rail_rings_visit_all_and_cross_on_one_rail(servers, rails) -> None:
    orders = rail_orders(servers, rails, rails)
    for order in orders:
        assert sorted(order) == list(range(servers * rails))
        after = np.roll(order, -1)
        far = order // rails != after // rails
        crossed = (order[far] % rails != after[far] % rails).sum()
        assert crossed <= (1 if rails == 2 and servers % 2 else 0)
    leaves = [
        order[np.flatnonzero(order // rails != np.roll(order, -1) // rails)] % rails
        for order in orders
    ]
    counts = np.bincount(np.concatenate(leaves), minlength=rails)
    if servers > 1:
        assert counts.max() == counts.min() or (rails == 2 and servers % 2)


def test_unsupported_algorithm_raises_input_error() -> None:
    with pytest.raises(InputError, match="no pxn all-reduce"):
        schedule_of(
            CollectiveCall(collective="all-reduce", algorithm="pxn", size_bytes=1.0), grid(2, 2)
        )
    with pytest.raises(InputError, match="power of two"):
        schedule_of(
            CollectiveCall(collective="all-gather", algorithm="halving", size_bytes=1.0), grid(3, 1)
        )
    assert ("send", "direct") in ALGORITHMS
