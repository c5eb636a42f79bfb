"""Graphics and high-performance computing: each use has the numbers that a plan for it needs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog import Catalog
from gpuyard.errors import nearest
from gpuyard.workload.finding import Finding
from gpuyard.workload.keys import entries
from gpuyard.workload.workload import Workload

__all__ = ["has_graphics_numbers", "has_hpc_numbers", "is_measured_on_something_known"]

_FRAME = ("frames", "frame_time", "measured_on")
_NEEDED = {"virtual-workstation": ("sessions",), "video": ("sessions",), "rendering": _FRAME}
_FOREIGN = {"virtual-workstation": _FRAME, "video": (*_FRAME, "displays"), "rendering": ("sessions", "displays")}


def has_graphics_numbers(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """The keys that this use of graphics needs, and none that belong to another use."""
    graphics = workload.graphics
    if graphics is None:
        return
    for entry in entries(workload):
        section, _, word = entry.path.partition(".")
        if section != "graphics" or not word:
            continue
        if entry.value is None and word in _NEEDED[graphics.use]:
            yield Finding(
                path="graphics",
                what=f'use: {graphics.use} needs "{word}"',
                fix=f"add {word}: <{entry.key.shape.doc}>",
            )
        if entry.given and word in _FOREIGN[graphics.use]:
            yield Finding(
                path=entry.path, what=f"use: {graphics.use} does not use {word}", fix="remove it, or change use"
            )


def has_hpc_numbers(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """How much there is to compute, once, and the traffic where memory is the bound."""
    hpc = workload.hpc
    if hpc is None:
        return
    if hpc.flop_count is None and hpc.cpu_hours_count is None:
        yield Finding(
            path="hpc",
            what="nothing says how much there is to compute",
            fix="add cpu_hours: <core-hours on CPUs>, or flop: <such as 1e21>",
        )
    if hpc.flop_count is not None and hpc.cpu_hours_count is not None:
        yield Finding(path="hpc.cpu_hours", what="the work is counted twice, in flop and in cpu_hours", fix="keep one")
    if hpc.bound == "bandwidth" and hpc.flop_count is not None and hpc.bytes_per_flop is None:
        yield Finding(
            path="hpc.bound",
            what="bandwidth is the bound, and nothing says how many bytes an operation moves",
            fix="add bytes_per_flop: <such as 6>, or count the work with cpu_hours",
        )
    if hpc.measured_on is not None and hpc.cpu_hours_count is None:
        yield Finding(path="hpc.measured_on", what="there is no cpu_hours that was measured", fix="add cpu_hours")


def is_measured_on_something_known(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """Chips and machines that the catalog does not have."""
    chips = [name for chip in catalog.chips for name in (chip.name, *chip.aliases)]
    machines = [machine.name for machine in catalog.machines]
    for section, value, known in (
        ("graphics", workload.graphics, chips),
        ("hpc", workload.hpc, [*machines, *chips]),
    ):
        name = value.measured_on if value is not None else None
        if name is None or name.casefold() in {known_name.casefold() for known_name in known}:
            continue
        meant = nearest(name, known)
        yield Finding(
            path=f"{section}.measured_on",
            what=f'the catalog has no chip{" or machine" if section == "hpc" else ""} named "{name}"',
            fix=f'use "{meant}"' if meant else "`gpuyard catalog chips` lists them",
        )
