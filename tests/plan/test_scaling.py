"""Scaling of one machine type over its counts, with the knee."""

from __future__ import annotations

from gpuyard.plan.option import Cluster, Option, Plan
from gpuyard.plan.scaling import scaling


def option(machine: str, count: int, time_s: float) -> Option:
    return Option(
        cluster=Cluster(machine=machine, machine_count=count, chip_count=8 * count),
        precision="bf16", step_s=1.0, step_parts=(), memory_bytes=1.0, memory_parts=(),
        memory_capacity_bytes=2.0, ideal_s=time_s, expected_s=time_s, error_ratio=0.1, bills=(),
        platforms=(), network="roce",
    )  # fmt: skip


def test_knee_is_the_largest_count_within_a_quarter_of_the_fewest_machine_hours() -> None:
    times = {1: 100.0, 2: 50.0, 4: 30.0, 8: 20.0}  # machine-seconds: 100, 100, 120, 160
    options = [option("a", count, time_s) for count, time_s in times.items()]
    plan = Plan(
        workload="w", task="hpc", options=(*reversed(options), option("b", 16, 1.0)),
        rejected=(), searched_count=5,
    )  # fmt: skip
    points = scaling(plan, "a")
    assert [point.machine_count for point in points] == [1, 2, 4, 8]
    assert [point.machine_count for point in points if point.knee] == [4]
    assert [point.efficiency_ratio for point in points] == [1.0, 1.0, 100 / 120, 100 / 160]
