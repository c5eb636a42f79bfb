"""The Pareto front is exactly the options that are not dominated."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.plan.option import Bill, BreakdownTerm, Cluster, Option, ParallelLayout
from gpuyard.plan.pareto import RankingRules, pareto_front, ranked
from gpuyard.plan.predictions import LimitChance

number = st.integers(0, 6).map(float)


def option(time_s: float, usd: float | None, chip_count: float) -> Option:
    bill = Bill(
        consumption="spot", region="r", price="p", usd_per_hour=1.0, billed_s=time_s, usd=usd or 0.0
    )
    return Option(
        cluster=Cluster(machine="m", machine_count=1, chip="c", chip_count=chip_count),
        precision="bf16",
        step_s=1.0,
        step_parts=(),
        memory_bytes=0.0,
        memory_parts=(),
        memory_capacity_bytes=1.0,
        ideal_s=time_s,
        expected_s=time_s,
        error_ratio=0.1,
        bills=() if usd is None else (bill,),
        platforms=(),
        network="roce",
    )


def triple(found: Option) -> tuple[float, float, float]:
    return (
        found.expected_s,
        float("inf") if found.usd is None else found.usd,
        found.cluster.chip_count,
    )


def beats(one: Option, other: Option) -> bool:
    return triple(one) != triple(other) and all(
        a <= b for a, b in zip(triple(one), triple(other), strict=True)
    )


@given(st.lists(st.tuples(number, st.one_of(st.none(), number), number), max_size=40))
def test_pareto_front_is_not_dominated(rows: list[tuple[float, float | None, float]]) -> None:
    marked = pareto_front([option(*row) for row in rows])
    assert [triple(found) for found in marked] == [triple(option(*row)) for row in rows]
    for found in marked:
        assert found.on_pareto_front == (not any(beats(other, found) for other in marked))


@given(st.lists(st.tuples(number, st.one_of(st.none(), number), number), min_size=1, max_size=20))
def test_first_option_is_among_the_cheapest_and_the_smallest_of_them(
    rows: list[tuple[float, float | None, float]],
) -> None:
    order = ranked(option(*row) for row in rows)
    assert len(order) == len(rows)
    priced = [found for found in order if found.usd]
    if priced and order[0].usd:
        least = min(found.usd or 0.0 for found in priced)
        assert (order[0].usd or 0.0) <= 1.1 * least
        close = [found for found in priced if (found.usd or 0.0) < 1.09 * least]
        assert order[0].cluster.chip_count <= min(found.cluster.chip_count for found in close)


def test_options_without_a_price_are_ranked_by_chips_not_by_speed() -> None:
    order = ranked([option(1.0, None, 1024.0), option(100.0, None, 8.0), option(50.0, None, 64.0)])
    assert [found.cluster.chip_count for found in order] == [8.0, 64.0, 1024.0]
    owned = ranked([option(100.0, None, 8.0), option(50.0, None, 64.0)], RankingRules(owned=True))
    assert [found.cluster.chip_count for found in owned] == [64.0, 8.0]


def test_likelier_option_comes_before_a_cheaper_one_that_may_miss_a_limit() -> None:
    nominal = replace(
        option(1.0, 10.0, 8.0),
        limits=(LimitChance(name="deadline", limit=1.0, chance=0.55, met=False),),
    )
    sure = replace(
        option(1.0, 20.0, 8.0),
        limits=(LimitChance(name="deadline", limit=1.0, chance=0.95, met=True),),
    )
    assert ranked([nominal, sure])[0] is sure


def test_option_without_published_runs_needs_half_the_cost() -> None:
    guess = replace(option(1.0, 8.0, 8.0), measured=False, error_ratio=0.5)
    known = option(1.0, 10.0, 8.0)
    assert ranked([guess, known])[0] is known
    assert ranked([replace(guess, bills=option(1.0, 4.0, 8.0).bills), known])[0] != known


def test_machines_that_work_together_are_fewer_unless_more_save_an_engineers_hour() -> None:
    one = option(1.0, 60.0, 8.0)
    four = replace(
        option(1.0, 20.0, 8.0),
        cluster=Cluster(machine="m", machine_count=4, chip="c", chip_count=8.0),
    )
    together = RankingRules(together=True)
    assert ranked([one, four], together)[0] is one
    assert ranked([one, four])[0] is four  # independent work
    dear = replace(one, bills=option(1.0, 200.0, 8.0).bills)
    assert ranked([dear, four], together)[0] is four


def test_accelerators_that_wait_for_the_cpu_come_after_cpus_at_a_similar_cost() -> None:
    parts = (BreakdownTerm(name="CPU", value=0.9), BreakdownTerm(name="GPU", value=0.1))
    idle = replace(option(1.0, 10.0, 8.0), step_parts=parts)
    cpu = replace(
        option(1.0, 10.5, 0.0), cluster=Cluster(machine="c", machine_count=9, chip_count=0)
    )
    assert ranked([idle, cpu])[0] is cpu


def test_state_in_host_memory_comes_after_more_chips_at_a_similar_cost() -> None:
    lean = replace(option(1.0, 10.0, 1.0), arrangement=ParallelLayout(offload="optimizer"))
    wide = replace(option(1.0, 10.5, 2.0), arrangement=ParallelLayout(dp=2))
    assert ranked([lean, wide])[0] is wide


def test_without_a_deadline_a_run_of_months_comes_after_a_larger_cluster() -> None:
    slow, fast = option(100.0, 10.0, 1.0), option(5.0, 10.5, 8.0)
    assert ranked([slow, fast])[0] is slow
    assert ranked([slow, fast], RankingRules(patience_s=10.0))[0] is fast


def test_accelerators_that_the_work_does_not_use_come_after_cpus_without_a_price() -> None:
    cluster = Cluster(machine="c", machine_count=9, chip_count=0)
    cpu = replace(option(10.0, None, 0), cluster=cluster)
    parts = (BreakdownTerm(name="CPU", value=1.0), BreakdownTerm(name="messages", value=2.0))
    unused = replace(option(10.0, 5.0, 8), step_parts=parts)
    used = replace(unused, step_parts=(*parts, BreakdownTerm(name="accelerators", value=0.1)))
    assert ranked([unused, cpu])[0] == cpu
    assert ranked([used, cpu])[0] == used
