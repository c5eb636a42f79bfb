"""Memory of options against the capacity."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.plan.option import BreakdownTerm, Cluster, Option
from gpuyard.report.memory_bars import memory_section
from gpuyard.units import BYTES

OPTION = Option(
    cluster=Cluster(machine="a3-highgpu-8g", machine_count=2, chip_count=16, chip="h100-sxm"),
    precision="bf16", step_s=1.0, step_parts=(), memory_bytes=6e10,
    memory_parts=(BreakdownTerm(name="weights", value=4e10), BreakdownTerm(name="unused", value=2e10)),
    memory_capacity_bytes=8e10, ideal_s=1.0, expected_s=1.0, error_ratio=0.1, bills=(), platforms=(), network="",
)  # fmt: skip


def test_memory_is_drawn_inside_the_capacity_without_the_unused_part() -> None:
    (section,) = memory_section([OPTION], BYTES)
    assert "Peak memory per chip" in section
    assert "weights: 40GB, 50%" in section
    assert "capacity: 80GB" in section
    assert "unused" not in section


def test_options_without_memory_have_no_section() -> None:
    assert memory_section([replace(OPTION, memory_parts=())], BYTES) == []
