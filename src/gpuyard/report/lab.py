"""A lab in tables: switches with their sessions and routes, and bandwidth beside its prediction."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.lab.results import Bandwidth, Raised
from gpuyard.lab.state import Status
from gpuyard.report.table import Column, Table
from gpuyard.units import BITS_PER_S, BYTES, DURATION, bits_from_bytes, show

__all__ = ["bandwidth_table", "raised_lines", "status_table"]


def raised_lines(raised: Raised) -> list[str]:
    """What came up, and how fast."""
    converged = f", converged in {raised.converge_s:.1f} s" if raised.converge_s is not None else ""
    return [f"lab {raised.status.name}: {raised.fabric}", f"booted in {raised.boot_s:.1f} s{converged}", *raised.notes]


def status_table(status: Status) -> Table:
    """Every switch against the design."""
    columns = (
        Column(heading="switch"), Column(heading="role"), Column(heading="sessions", numeric=True),
        Column(heading="routes", numeric=True), Column(heading="equal paths", numeric=True),
    )  # fmt: skip
    rows = tuple(
        (
            switch.name,
            switch.role,
            f"{switch.sessions_up_count} of {switch.sessions_count}",
            f"{switch.routes_count} of {switch.expected_count}",
            f"{switch.least_width_count} of {switch.designed_width_count}" if switch.designed_width_count else "–",
        )
        for switch in status.switches
    )
    verdict = "converged: as designed" if status.is_converged else "not as designed: `gpuyard lab verify` says why"
    return Table(columns=columns, rows=rows, title=f"lab {status.name}", notes=(verdict,))


def bandwidth_table(rows: Sequence[Bandwidth]) -> Table:
    """Measured beside simulated."""
    columns = (
        Column(heading="all-reduce", numeric=True), Column(heading="measured", numeric=True),
        Column(heading="simulated", numeric=True), Column(heading="bus measured", numeric=True),
        Column(heading="bus simulated", numeric=True), Column(heading="error", numeric=True),
    )  # fmt: skip
    cells = tuple(
        (
            show(row.size_bytes, BYTES),
            show(row.measured_s, DURATION),
            show(row.predicted_s, DURATION),
            show(bits_from_bytes(row.measured_bus_bytes_per_s), BITS_PER_S),
            show(bits_from_bytes(row.predicted_bus_bytes_per_s), BITS_PER_S),
            f"{row.error_ratio:+.1%}",
        )
        for row in rows
    )
    return Table(columns=columns, rows=cells, title="all servers, all rails")
