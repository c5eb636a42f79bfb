"""Checks of graphics and HPC sections: each use has the keys that a plan needs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Problem, closest_match
from gpuyard.workload.key_rules import entries
from gpuyard.workload.workload import Workload

_RENDER_KEYS = ("frames", "frame_time", "measured_on")
_NEEDED = {"virtual-workstation": ("sessions",), "video": ("sessions",), "rendering": _RENDER_KEYS}
_UNUSED = {
    "virtual-workstation": _RENDER_KEYS,
    "video": (*_RENDER_KEYS, "displays"),
    "rendering": ("sessions", "displays"),
}


def check_graphics(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report missing and unused keys of this use of graphics."""
    graphics = workload.graphics
    if graphics is None:
        return
    for entry in entries(workload):
        section, _, word = entry.path.partition(".")
        if section != "graphics" or not word:
            continue
        if entry.value is None and word in _NEEDED[graphics.use]:
            yield Problem(
                where="graphics",
                what=f'use: {graphics.use} needs "{word}"',
                fix=f"add {word}: <{entry.key.type.doc}>",
            )
        if entry.given and word in _UNUSED[graphics.use]:
            yield Problem(
                where=entry.path,
                what=f"use: {graphics.use} does not use {word}",
                fix="remove it, or change use",
            )


def check_hpc(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report an amount of work that is missing or given twice, and missing memory traffic."""
    hpc = workload.hpc
    if hpc is None:
        return
    if hpc.flop_count is None and hpc.cpu_hours_count is None:
        yield Problem(
            where="hpc",
            what="the amount of work is missing",
            fix="add cpu_hours: <CPU core-hours>, or flop: <such as 1e21>",
        )
    if hpc.flop_count is not None and hpc.cpu_hours_count is not None:
        yield Problem(
            where="hpc.cpu_hours",
            what="the amount of work is given twice, in flop and in cpu_hours",
            fix="keep one",
        )
    if hpc.bound == "bandwidth" and hpc.flop_count is not None and hpc.bytes_per_flop is None:
        yield Problem(
            where="hpc.bound",
            what="a memory-bound code with flop needs its memory traffic per FLOP",
            fix="add bytes_per_flop: <such as 6>, or use cpu_hours instead of flop",
        )
    if hpc.measured_on is not None and hpc.cpu_hours_count is None:
        yield Problem(
            where="hpc.measured_on",
            what="measured_on is given without cpu_hours",
            fix="add cpu_hours, or remove measured_on",
        )


def check_measured_on(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report chips and machines that the catalog does not have."""
    chips = [name for chip in catalog.chips for name in (chip.name, *chip.aliases)]
    machines = [machine.name for machine in catalog.machines]
    for section, value, known in (
        ("graphics", workload.graphics, chips),
        ("hpc", workload.hpc, [*machines, *chips]),
    ):
        name = value.measured_on if value is not None else None
        if name is None or name.casefold() in {known_name.casefold() for known_name in known}:
            continue
        noun = "chip or machine" if section == "hpc" else "chip"
        meant = closest_match(name, known)
        yield Problem(
            where=f"{section}.measured_on",
            what=f'the catalog has no {noun} named "{name}"',
            fix=f'use "{meant}"' if meant else "see `gpuyard catalog chips`",
        )
