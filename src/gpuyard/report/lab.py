"""A lab as tables: switches with sessions and routes, measured and predicted bandwidth."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.lab.results import Bandwidth, LabStarted
from gpuyard.lab.state import LabStatus
from gpuyard.report.table import Table, table_columns
from gpuyard.units import BITS_PER_S, BYTES, DURATION, bits_from_bytes, show


def raised_lines(raised: LabStarted) -> list[str]:
    """What was booted, and how long it took."""
    converged = f", converged in {raised.converge_s:.1f} s" if raised.converge_s is not None else ""
    return [
        f"lab {raised.status.name}: {raised.fabric}",
        f"booted in {raised.boot_s:.1f} s{converged}",
        *raised.notes,
    ]


def status_table(status: LabStatus) -> Table:
    """Every switch compared with the design."""
    columns = table_columns("switch", "role", ">sessions", ">routes", ">ECMP paths")
    rows = tuple(
        (
            switch.name,
            switch.role,
            f"{switch.sessions_up_count} of {switch.sessions_count}",
            f"{switch.routes_count} of {switch.expected_count}",
            f"{switch.least_width_count} of {switch.designed_width_count}"
            if switch.designed_width_count
            else "–",
        )
        for switch in status.switches
    )
    verdict = (
        "converged: as designed"
        if status.is_converged
        else "not as designed: `gpuyard lab verify` shows why"
    )
    return Table(columns=columns, rows=rows, title=f"lab {status.name}", notes=(verdict,))


def bandwidth_table(rows: Sequence[Bandwidth]) -> Table:
    """Measured and simulated bandwidth."""
    columns = table_columns(
        ">all-reduce", ">measured", ">simulated", ">bus measured", ">bus simulated", ">error"
    )
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
