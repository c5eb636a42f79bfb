"""An audit of configurations as a table."""

from __future__ import annotations

from gpuyard.fabric.configs.audit import Audit
from gpuyard.report.table import NOT_KNOWN, Table, table_columns

MAX_DEVICES = 24  # of a table; more are summed


def audited_table(audit: Audit) -> Table:
    """What was read of each device, and how much of it is in the model."""
    columns = table_columns(
        "device",
        "OS",
        "release",
        ">ports",
        ">BGP neighbours",
        ">statements",
        ">verified",
        ">known",
        ">not understood",
    )
    rows = [
        (
            device.name,
            device.os,
            device.release or NOT_KNOWN,
            f"{device.ports:,}",
            f"{device.neighbours:,}",
            f"{device.statements:,}",
            f"{device.statements - device.other - len(device.unread):,}",
            f"{device.other:,}",
            f"{len(device.unread):,}",
        )
        for device in audit.devices[:MAX_DEVICES]
    ]
    more = len(audit.devices) - MAX_DEVICES
    total = sum(device.statements for device in audit.devices)
    unread = sum(len(device.unread) for device in audit.devices)
    notes = (
        f"{len(audit.devices):,} devices, {total:,} statements, {unread:,} not understood"
        + (f"; {more:,} devices are not shown" if more > 0 else ""),
    )
    return Table(columns=columns, rows=tuple(rows), notes=notes)
