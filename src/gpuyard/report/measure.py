"""A machine profile as tables."""

from __future__ import annotations

from gpuyard.perf.local.profile import MachineProfile, Rate
from gpuyard.report.table import Table, table_columns
from gpuyard.units import BYTES, BYTES_PER_S, DURATION, FLOP_PER_S, show


def _value(rate: Rate) -> str:
    if rate.kind == "product":
        return show(rate.value, FLOP_PER_S)
    return show(rate.value, DURATION) if rate.kind == "latency" else show(rate.value, BYTES_PER_S)


def rates_table(profile: MachineProfile) -> Table:
    """Measured rates; for matmul the largest of each dtype."""
    largest: dict[tuple[str, str, str, str], Rate] = {}
    for rate in profile.rates:
        key = (rate.kind, rate.by, rate.device, rate.dtype)
        if key not in largest or rate.size > largest[key].size:
            largest[key] = rate
    rows = tuple(
        (
            "matmul" if rate.kind == "product" else rate.kind,
            rate.by,
            rate.device,
            rate.dtype or "–",
            f"{rate.size:.0f} square" if rate.kind == "product" else show(rate.size, BYTES),
            _value(rate),
            f"±{rate.spread_ratio / 2:.0%}",
        )
        for rate in largest.values()
    )
    headings = ("what", "by", "on", "type", "size", "rate", "spread")
    columns = table_columns(*headings, numeric=("size", "rate", "spread"))
    title = (
        f"{profile.cores_count} cores of {profile.processor}, {show(profile.memory_bytes, BYTES)}"
    )
    return Table(columns=columns, rows=rows, title=title)


def fits_table(profile: MachineProfile) -> Table:
    """Fitted step-time constants of each trainer."""
    rows = tuple(
        (
            fit.trainer,
            show(fit.step_overhead_s, DURATION),
            show(fit.layer_overhead_s, DURATION),
            f"× {fit.gemm_ratio:.2f}",
            f"× {fit.activation_ratio:.2f}",
            f"× {fit.optimizer_ratio:.2f}",
            f"{fit.error_ratio:.0%}",
        )
        for fit in profile.fits
    )
    columns = table_columns(
        "trainer",
        ">overhead",
        ">per layer",
        ">matmul",
        ">activations",
        ">optimizer",
        ">held-out error",
    )
    return Table(columns=columns, rows=rows, title="short trainings")
