"""Published training runs as arrays, and unsupported rows with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np

from gpuyard.catalog.load import Catalog
from gpuyard.perf.chip_kernels import (
    ChipKernels,
    Precision,
    peak_flop_per_s,
    silicon_named,
    training_chip,
)
from gpuyard.perf.layout import Architecture, Array, Layout, Software, TrainingChip
from gpuyard.perf.memory import min_recompute
from gpuyard.perf.profiles import SoftwareProfile, choose_profile, find_profile
from gpuyard.perf.published_run import (
    Row,
    architecture_cells,
    layout_cells,
    network_cells,
    number,
    precision_of,
    recompute_cells,
    selective_cells,
    unsupported_reason,
)
from gpuyard.perf.recipes import choose_settings
from gpuyard.perf.run_columns import filled
from gpuyard.perf.software import expert_numbers, software_numbers

DEFAULTS = {"attention_ratio": 1.0, "expert_tensor_parallel": 1.0}  # of omitted fields; else 0
V = TypeVar("V", Architecture, Layout, Software)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRuns:
    """Supported rows as arrays of one length."""

    rows: tuple[Row, ...]
    arch: Architecture
    layout: Layout
    chip: TrainingChip  # rates are peaks
    soft: Software
    profiles: tuple[SoftwareProfile, ...]
    precisions: tuple[Precision, ...]
    silicon: tuple[ChipKernels, ...]
    reference_s: Array
    memory_bytes: Array
    unsupported: tuple[tuple[str, str], ...]  # row id, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    row: Row
    arch: dict[str, float]
    layout: dict[str, float]
    soft: dict[str, float]
    chip: TrainingChip
    profile: SoftwareProfile
    precision: Precision
    silicon: ChipKernels


def read_runs(
    rows: Iterable[Row], catalog: Catalog, trust: str = "AB", profile: str = ""
) -> PublishedRuns:
    """Return the rows of that trust; `profile`: one software profile for all rows."""
    runs: list[_Run] = []
    unsupported: list[tuple[str, str]] = []
    for cells in rows:
        row = filled(cells, catalog)
        if row["trust"] not in trust:
            continue
        try:
            run = _run(row, catalog, profile)
        except ValueError as error:
            run = f"invalid cell: {error}"
        if isinstance(run, str):
            unsupported.append((row["id"], run))
        else:
            runs.append(run)
    arch = _columns(Architecture, [run.arch for run in runs])
    layout = _columns(Layout, [run.layout for run in runs])
    soft = _columns(Software, [run.soft for run in runs])
    chip = TrainingChip(
        **{
            f.name: np.array([getattr(run.chip, f.name) for run in runs])
            for f in fields(TrainingChip)
        }
    )
    return PublishedRuns(
        rows=tuple(run.row for run in runs),
        arch=arch,
        layout=_completed(arch, layout, chip, soft, [run.row for run in runs]),
        chip=chip,
        soft=soft,
        profiles=tuple(run.profile for run in runs),
        precisions=tuple(run.precision for run in runs),
        silicon=tuple(run.silicon for run in runs),
        reference_s=np.array([number(run.row, "ref_step_time_s") for run in runs]),
        # Sources write GB for GiB.
        memory_bytes=np.array([number(run.row, "mem_gb_per_chip") for run in runs]) * 2.0**30,
        unsupported=tuple(unsupported),
    )


def _run(row: Row, catalog: Catalog, profile_name: str) -> _Run | str:
    """Return the row as model inputs, or the reason why it is not supported."""
    if reason := unsupported_reason(row):
        return reason
    for measured in ("ref_step_time_s", "mem_gb_per_chip"):
        number(row, measured)  # raises here, so that an invalid cell rejects only this row
    silicon = silicon_named(row["chip"])
    if silicon is None:
        return f"unknown chip {row['chip']}"
    profile = (
        find_profile(profile_name)
        if profile_name
        else choose_profile(row["framework"], row["measured_on"], row["chip"], row["precision"])
    )
    if profile is None:
        return f"no software profile for {row['framework']}"
    chip, precision = catalog.chip(silicon.chip), precision_of(row["precision"])
    if precision == "bf16" and chip.dense.bf16_flop_per_s is None:
        precision = "fp16"  # sources use either name for 16 bits
    if peak_flop_per_s(chip, precision) is None:
        return f"no {precision} peak known for {row['chip']}"
    arch = architecture_cells(row)
    layout = layout_cells(row, arch, profile) | recompute_cells(row, arch, "flash" in profile.flags)
    domain, board, nic = network_cells(row, silicon)
    fp32_sum = "fp32 grad" in row["precision"] or "fp32 grad" in row["notes"]
    soft = software_numbers(
        profile, row["chip"].startswith("GB"), "PURE" in row["precision"], fp32_sum
    )
    unfused = re.search(r"(\S+) rows without flash", row["notes"])
    if unfused and unfused.group(1) in row["model"]:
        soft["flash"] = 0.0  # stated per model in the notes
    if arch["experts"]:
        later = profile.words and profile.precedes(row["measured_on"])
        framework = profile.words if later else row["framework"]
        moe = choose_settings(framework, row["measured_on"], row["model"], row["chip"], precision)
        soft |= expert_numbers(moe, soft["flash"])
        layout["expert_tensor_parallel"] = layout["tp"] if moe.etp == "tp" else float(moe.etp)
        if moe.recompute is not None and not row["recompute"]:  # the row wins
            layout |= selective_cells(arch, moe.recompute)
    return _Run(
        row=row,
        arch=arch,
        layout=layout,
        soft=soft,
        chip=training_chip(silicon, chip, precision, domain, nic, board),
        profile=profile,
        precision=precision,
        silicon=silicon,
    )


def _columns(kind: type[V], rows: list[dict[str, float]]) -> V:
    return kind(
        **{
            f.name: np.array(
                [row.get(f.name, DEFAULTS.get(f.name, 0.0)) for row in rows], dtype=np.float64
            )
            for f in fields(kind)
        }
    )


def _completed(
    arch: Architecture, layout: Layout, chip: TrainingChip, soft: Software, rows: list[Row]
) -> Layout:
    """Assume minimum recomputation where a source omits it; Grace hosts offload instead."""
    unstated = np.array(
        [
            not row["recompute"]
            and row["arch_type"] == "dense"
            and not row["chip"].startswith("GB")
            for row in rows
        ],
        dtype=bool,
    )
    share = np.where(unstated, min_recompute(arch, layout, chip, soft), 0.0)
    again = share > 0.0
    return replace(
        layout,
        recompute_gemm=np.where(again, share, layout.recompute_gemm),
        recompute_attention=np.where(again, share, layout.recompute_attention),
        recompute_elementwise=np.where(again, share, layout.recompute_elementwise),
        recompute_comm=np.where(again, share, layout.recompute_comm),
    )
