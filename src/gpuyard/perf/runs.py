"""Published training runs as inputs of the model: supported rows as arrays, the others with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np

from gpuyard.catalog import Catalog
from gpuyard.perf.cells import filled
from gpuyard.perf.layout import Architecture, Array, Layout, Machine, Software
from gpuyard.perf.memory import least_recompute
from gpuyard.perf.profiles import Profile, choose_profile, find_profile
from gpuyard.perf.published import (
    Row,
    architecture_cells,
    layout_cells,
    network_cells,
    number,
    precision_of,
    recompute_cells,
    selective_cells,
    why_not,
)
from gpuyard.perf.recipes import choose_settings
from gpuyard.perf.silicon import Precision, Silicon, machine, peak_flop_per_s, silicon_named
from gpuyard.perf.software import expert_numbers, software_numbers

__all__ = ["Runs", "read_runs"]

DEFAULTS = {"etp": 1.0}  # fields that a row may leave out are 0 but for these
V = TypeVar("V", Architecture, Layout, Software)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The rows that the model can express, as arrays of one length."""

    rows: tuple[Row, ...]
    arch: Architecture
    layout: Layout
    chip: Machine  # rates are peaks
    soft: Software
    profiles: tuple[Profile, ...]
    precisions: tuple[Precision, ...]
    silicon: tuple[Silicon, ...]
    reference_s: Array
    memory_bytes: Array
    unsupported: tuple[tuple[str, str], ...]  # the row's id, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One supported row."""

    row: Row
    arch: dict[str, float]
    layout: dict[str, float]
    soft: dict[str, float]
    chip: Machine
    profile: Profile
    precision: Precision
    silicon: Silicon


def read_runs(rows: Iterable[Row], catalog: Catalog, trust: str = "AB", profile: str = "") -> Runs:
    """The rows of that trust; `profile` names the software of all of them."""
    runs: list[_Run] = []
    refused: list[tuple[str, str]] = []
    for cells in rows:
        row = filled(cells, catalog)
        if row["trust"] not in trust:
            continue
        try:
            run = _run(row, catalog, profile)
        except ValueError as error:
            run = f"a cell cannot be read: {error}"
        if isinstance(run, str):
            refused.append((row["id"], run))
        else:
            runs.append(run)
    arch, layout = _columns(Architecture, [run.arch for run in runs]), _columns(Layout, [run.layout for run in runs])
    soft = _columns(Software, [run.soft for run in runs])
    chip = Machine(**{f.name: np.array([getattr(run.chip, f.name) for run in runs]) for f in fields(Machine)})
    return Runs(
        rows=tuple(run.row for run in runs),
        arch=arch,
        layout=_completed(arch, layout, chip, soft, [run.row for run in runs]),
        chip=chip,
        soft=soft,
        profiles=tuple(run.profile for run in runs),
        precisions=tuple(run.precision for run in runs),
        silicon=tuple(run.silicon for run in runs),
        reference_s=np.array([number(run.row, "ref_step_time_s") for run in runs]),
        memory_bytes=np.array([number(run.row, "mem_gb_per_chip") for run in runs]) * 2.0**30,  # sources mean GiB
        unsupported=tuple(refused),
    )


def _run(row: Row, catalog: Catalog, profile_name: str) -> _Run | str:
    """The row as numbers, or why it cannot be."""
    if reason := why_not(row):
        return reason
    for measured in ("ref_step_time_s", "mem_gb_per_chip"):
        number(row, measured)  # a cell that cannot be read is this row's, not the file's
    silicon = silicon_named(row["chip"])
    if silicon is None:
        return f"no facts for chip {row['chip']}"
    profile = (
        find_profile(profile_name)
        if profile_name
        else choose_profile(row["framework"], row["measured_on"], row["chip"], row["precision"])
    )
    if profile is None:
        return f"no software profile for {row['framework']}"
    chip, precision = catalog.chip(silicon.chip), precision_of(row["precision"])
    if precision == "bf16" and chip.dense.bf16_flop_per_s is None:
        precision = "fp16"  # sources write either for 16 bits
    if peak_flop_per_s(chip, precision) is None:
        return f"no {precision} peak known for {row['chip']}"
    arch = architecture_cells(row)
    layout = layout_cells(row, arch, profile) | recompute_cells(row, arch, "flash" in profile.flags)
    domain, board, nic = network_cells(row, silicon)
    summed = "fp32 grad" in row["precision"] or "fp32 grad" in row["notes"]
    soft = software_numbers(profile, row["chip"].startswith("GB"), "PURE" in row["precision"], summed)
    unfused = re.search(r"(\S+) rows without flash", row["notes"])
    if unfused and unfused.group(1) in row["model"]:
        soft["flash"] = 0.0  # the source says so of some of its models
    if arch["experts"]:
        told = choose_settings(row["framework"], row["measured_on"], row["model"], row["chip"], precision)
        soft |= expert_numbers(told, soft["flash"])
        layout["etp"] = layout["tp"] if told.etp == "tp" else float(told.etp)
        if told.recompute is not None and not row["recompute"]:  # what the row says wins
            layout |= selective_cells(arch, told.recompute)
    return _Run(
        row=row,
        arch=arch,
        layout=layout,
        soft=soft,
        chip=machine(silicon, chip, precision, domain, nic, board),
        profile=profile,
        precision=precision,
        silicon=silicon,
    )


def _columns(kind: type[V], rows: list[dict[str, float]]) -> V:
    """One value whose fields are columns."""
    return kind(
        **{
            f.name: np.array([row.get(f.name, DEFAULTS.get(f.name, 0.0)) for row in rows], dtype=np.float64)
            for f in fields(kind)
        }
    )


def _completed(arch: Architecture, layout: Layout, chip: Machine, soft: Software, rows: list[Row]) -> Layout:
    """Where the source does not say, the least recomputation that fits; Grace hosts offload instead."""
    silent = np.array(
        [not row["recompute"] and row["arch_type"] == "dense" and not row["chip"].startswith("GB") for row in rows],
        dtype=bool,
    )
    share = np.where(silent, least_recompute(arch, layout, chip, soft), 0.0)
    again = share > 0.0
    return replace(
        layout,
        recompute_gemm=np.where(again, share, layout.recompute_gemm),
        recompute_attention=np.where(again, share, layout.recompute_attention),
        recompute_elementwise=np.where(again, share, layout.recompute_elementwise),
        recompute_comm=np.where(again, share, layout.recompute_comm),
    )
