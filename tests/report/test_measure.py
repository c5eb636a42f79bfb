"""Tables of a machine profile."""

from __future__ import annotations

from gpuyard.perf.local.profile import MachineProfile, Rate, TrainerFit
from gpuyard.report.measure import fits_table, rates_table

PROFILE = MachineProfile(
    name="bench", processor="a processor", cores_count=2, memory_bytes=8e9, measured_at="2026-01-01", versions=(),
    rates=(
        Rate(kind="product", by="numpy", dtype="float32", size=256, value=4e10, spread_ratio=0.02),
        Rate(kind="product", by="numpy", dtype="float32", size=1024, value=8e10, spread_ratio=0.04),
        Rate(kind="memory", by="numpy", size=1e8, value=1e10, spread_ratio=0.1),
        Rate(kind="latency", by="gloo", size=1024, value=2e-4, spread_ratio=0.5),
    ),
    fits=(
        TrainerFit(trainer="trees", step_overhead_s=1e-3, layer_overhead_s=1e-5, gemm_ratio=1.25, activation_ratio=0.5,
            optimizer_ratio=0.0, error_ratio=0.08, base_memory_bytes=1e8, memory_ratio=1.0),
    ),
)  # fmt: skip


def test_rates_show_largest_matmul_and_units() -> None:
    table = rates_table(PROFILE)
    assert table.title == "2 cores of a processor, 8GB"
    assert [(row[0], row[4], row[5], row[6]) for row in table.rows] == [
        ("matmul", "1024 square", "80GFLOPS", "±2%"),
        ("memory", "100MB", "10GB/s", "±5%"),
        ("latency", "1.02kB", "200µs", "±25%"),
    ]


def test_fits_table_shows_constants() -> None:
    assert fits_table(PROFILE).rows == (
        ("trees", "1ms", "10µs", "× 1.25", "× 0.50", "× 0.00", "8%"),
    )
