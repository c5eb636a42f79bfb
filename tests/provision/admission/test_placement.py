"""Placement: the sums over domains agree with a search over every assignment."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.provision.admission.placement import NodeState, PodSet, place, without

LEVELS = ("block", "rack", "host")
ROOMS = st.lists(st.integers(0, 3), min_size=1, max_size=6)


def nodes(rooms: list[int]) -> tuple[NodeState, ...]:
    """Nodes two to a rack, and two racks to a block."""
    return tuple(
        NodeState(
            name=f"n{number}",
            labels={
                "block": str(number // 4),
                "rack": str(number // 2),
                "host": str(number),
            },
            free={"gpu": float(room)},
        )
        for number, room in enumerate(rooms)
    )


def pod_set(count: int, **more: object) -> PodSet:
    return PodSet(name="w", pod_count=count, requests={"gpu": 1.0}, **more)  # type: ignore[arg-type]


def fits_by_search(rooms: list[int], count: int, level: str, slice_level: str, size: int) -> bool:
    """Try every number of pods per node."""
    hosts = nodes(rooms)
    for counts in itertools.product(*(range(room + 1) for room in rooms)):
        if sum(counts) != count:
            continue
        used = [(node, n) for node, n in zip(hosts, counts, strict=True) if n]
        if level and len({node.labels[level] for node, _ in used}) > 1:
            continue
        sums: dict[str, int] = {}
        for node, n in used:
            sums[node.labels[slice_level]] = sums.get(node.labels[slice_level], 0) + n
        if all(total % size == 0 for total in sums.values()):
            return True
    return False


@settings(max_examples=120, deadline=None)
@given(
    rooms=ROOMS,
    slices=st.integers(1, 4),
    size=st.integers(1, 3),
    level=st.sampled_from(["", "block", "rack"]),
)
def test_place_agrees_with_exhaustive_search(
    rooms: list[int], slices: int, size: int, level: str
) -> None:
    slice_level = "rack" if size > 1 else "host"
    pods = pod_set(slices * size, required=level, slice_level=slice_level, slice_pod_count=size)
    placed = place(pods, nodes(rooms), LEVELS)
    assert (placed is not None) == fits_by_search(rooms, slices * size, level, slice_level, size)
    if placed is not None:
        assert sum(count for _, count in placed.pods) == slices * size
        assert all(node.free["gpu"] >= 0.0 for node in without(nodes(rooms), pods, placed))


def test_preferred_level_falls_back_to_wider_ones() -> None:
    rooms = [2, 0, 0, 2, 3, 3]
    inside = place(pod_set(6, preferred="rack"), nodes(rooms), LEVELS)
    assert inside is not None
    assert {name for name, _ in inside.pods} == {"n4", "n5"}
    assert place(pod_set(10, preferred="rack"), nodes(rooms), LEVELS) is not None
    assert place(pod_set(7, required="rack"), nodes(rooms), LEVELS) is None


def test_smallest_domain_that_fits_is_used() -> None:
    placed = place(pod_set(2, required="rack"), nodes([3, 3, 1, 1, 0, 0]), LEVELS)
    assert placed is not None
    assert {name for name, _ in placed.pods} == {"n2", "n3"}
