"""Combinations of a sweep, and their spread over seeds."""

from __future__ import annotations

from gpuyard.simulate.summary import NetworkSummary
from gpuyard.simulate.sweep import Axes, SweepRow, cases, spreads


def summary(seed: int, completion_s: float, balancing: str = "ecmp") -> NetworkSummary:
    return NetworkSummary(
        network="n",
        traffic="t",
        engine="flow",
        balancing=balancing,
        congestion_control="none",
        seed=seed,
        hosts=4,
        flows=4,
        completed=4,
        completion_s=completion_s,
        total_bytes=1.0,
        bus_bytes_per_s=1.0 / completion_s,
    )


def row(seed: int, completion_s: float | None, balancing: str = "ecmp") -> SweepRow:
    made = None if completion_s is None else summary(seed, completion_s, balancing)
    return SweepRow(
        design="d",
        size_bytes=1e6,
        channels=1,
        seed=seed,
        summary=made,
        infeasible=None if made else "no",
    )


def test_every_combination_is_there_once() -> None:
    axes = Axes(
        designs=("a", "b"), sizes_bytes=(1.0, 2.0), balancings=("ecmp", "spray"), seeds=(1, 2, 3)
    )
    made = cases(axes)
    assert len(made) == len(set(made)) == 2 * 2 * 2 * 3
    assert [case.seed for case in made[:3]] == [1, 2, 3]
    assert {case.name for case in made if case.design == 1} == {"b"}


def test_spreads_are_over_seeds_alone() -> None:
    found = spreads([row(1, 1.0), row(2, 3.0), row(1, 5.0, "spray"), row(3, None)])
    assert [spread.balancing for spread in found] == ["ecmp", "spray"]
    assert (found[0].runs, found[0].completion_mean_s) == (2, 2.0)
    assert (found[0].completion_min_s, found[0].completion_max_s) == (1.0, 3.0)
    assert found[0].drops is None  # nobody counted them
