"""The front: nothing on it is beaten, everything off it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.plan.front import pareto_front, ranked
from gpuyard.plan.option import Bill, Cluster, Option

number = st.integers(0, 6).map(float)


def option(time_s: float, usd: float | None, chip_count: float) -> Option:
    bill = Bill(way="spot", region="r", price="p", usd_per_hour=1.0, billed_s=time_s, usd=usd or 0.0)
    return Option(
        cluster=Cluster(machine="m", machine_count=1, chip="c", chip_count=chip_count), precision="bf16", step_s=1.0,
        step_parts=(), memory_bytes=0.0, memory_parts=(), memory_capacity_bytes=1.0, ideal_s=time_s, expected_s=time_s,
        error_ratio=0.1, bills=() if usd is None else (bill,), platforms=(), network="roce",
    )  # fmt: skip


def triple(found: Option) -> tuple[float, float, float]:
    return found.expected_s, float("inf") if found.usd is None else found.usd, found.cluster.chip_count


def beats(one: Option, other: Option) -> bool:
    return triple(one) != triple(other) and all(a <= b for a, b in zip(triple(one), triple(other), strict=True))


@given(st.lists(st.tuples(number, st.one_of(st.none(), number), number), max_size=40))
def test_on_the_front_is_what_nothing_beats(rows: list[tuple[float, float | None, float]]) -> None:
    marked = pareto_front([option(*row) for row in rows])
    assert [triple(found) for found in marked] == [triple(option(*row)) for row in rows]
    for found in marked:
        assert found.on_front == (not any(beats(other, found) for other in marked))


@given(st.lists(st.tuples(number, st.one_of(st.none(), number), number), min_size=1, max_size=20))
def test_the_first_is_the_cheapest(rows: list[tuple[float, float | None, float]]) -> None:
    order = ranked(option(*row) for row in rows)
    costs = [triple(found)[1] for found in order]
    assert costs == sorted(costs)
    assert len(order) == len(rows)
