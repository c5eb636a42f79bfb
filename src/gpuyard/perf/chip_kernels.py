"""Kernel-level properties of chips (GEMM peaks, efficiencies), and chips as model inputs."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np

from gpuyard.catalog.chips import Chip
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.perf.calibration import TrainingCalibration
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import GENERATIONS, Array, TrainingChip
from gpuyard.perf.published_chip import published_chip
from gpuyard.units import BITS_PER_S, BYTES, BYTES_PER_S, bytes_from_bits

Generation = Literal["ampere", "hopper", "blackwell", "cdna", "tpu"]
Precision = Literal[
    "fp32", "tf32", "bf16", "fp16", "fp8", "fp8-row", "mxfp8", "nvfp4", "fp4", "int8"
]
assert get_args(Generation) == GENERATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmFormat:
    """A GEMM precision: the peak it runs at, and the cost of its operands."""

    peak: str  # field of the chip's dense peaks
    operand_bytes: float
    cast_bytes: float  # HBM traffic to quantise an operand: read, row and column copies, scales
    ratio: Literal["bf16", "fp8", "nvfp4"]  # which calibrated ratio applies


FORMATS: dict[Precision, GemmFormat] = {
    "fp32": GemmFormat(peak="fp32", operand_bytes=4.0, cast_bytes=0.0, ratio="bf16"),
    "tf32": GemmFormat(peak="tf32", operand_bytes=4.0, cast_bytes=0.0, ratio="bf16"),
    "bf16": GemmFormat(peak="bf16", operand_bytes=2.0, cast_bytes=0.0, ratio="bf16"),
    "fp16": GemmFormat(peak="fp16", operand_bytes=2.0, cast_bytes=0.0, ratio="bf16"),
    "fp8": GemmFormat(peak="fp8", operand_bytes=1.0, cast_bytes=4.0, ratio="fp8"),
    "fp8-row": GemmFormat(peak="fp8", operand_bytes=1.0, cast_bytes=12.0, ratio="fp8"),
    "mxfp8": GemmFormat(peak="fp8", operand_bytes=1.0, cast_bytes=4.25, ratio="fp8"),
    "nvfp4": GemmFormat(peak="fp4", operand_bytes=0.56, cast_bytes=5.0, ratio="nvfp4"),
    "fp4": GemmFormat(peak="fp4", operand_bytes=0.56, cast_bytes=5.0, ratio="nvfp4"),
    "int8": GemmFormat(peak="int8", operand_bytes=1.0, cast_bytes=4.0, ratio="fp8"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipKernels:
    """Kernel-level properties of a chip."""

    name: str
    chip: Annotated[str, Doc("a name under chips")]
    match: Annotated[str, Doc("pattern over the chip names of published runs")]
    generation: Generation
    sm_count: int
    ratio: Annotated[str, Doc("key of its GEMM efficiency in the calibration")]
    factor: Annotated[str, Doc("key of a factor on that efficiency")] = ""
    power_gain_ratio: Annotated[
        float, Doc("power limit over that of the chip that the efficiency is fitted on")
    ] = 1.0
    exponential_ratio: Annotated[float, Doc("exponentials per clock over its generation's")] = 1.0
    torus_axes: int = 1
    calibrated: bool = True
    planned: Annotated[bool, Doc("false: runs are scored, plans do not use it")] = True
    unmeasured: Annotated[str, Doc("why no published run resembles it; empty: some do")] = ""
    memory_bytes: Annotated[float | None, BYTES, Doc("where it differs from the catalog's")] = None
    memory_bytes_per_s: Annotated[float | None, BYTES_PER_S] = None
    scale_up_bytes_per_s: Annotated[float | None, BYTES_PER_S] = None
    host_bytes_per_s: Annotated[
        float, BYTES_PER_S, Doc("to host memory, unidirectional, per chip")
    ] = 0.0
    usual_domain_count: int = 1
    usual_nic_bits_per_s: Annotated[float, BITS_PER_S] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    silicon: tuple[ChipKernels, ...]


@functools.cache
def read_silicon() -> tuple[ChipKernels, ...]:
    """Return the chips of the kernel models."""
    path = Path(__file__).parent / "data" / "chip_kernels.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).silicon


def silicon_of(chip: Chip) -> ChipKernels | None:
    """Return the kernel properties of a catalog chip for plans; None where it has none."""
    planned = (item for item in read_silicon() if item.planned)
    return next((item for item in planned if item.chip == chip.name), None)


def silicon_named(name: str) -> ChipKernels | None:
    """Return the kernel properties of a chip by catalog name, else by the last matching pattern."""
    exact = [item for item in read_silicon() if item.chip == name]
    spelled = published_chip(name)
    matches = exact[:1] or [
        item for item in read_silicon() if re.search(item.match, spelled, re.IGNORECASE)
    ]
    return matches[-1] if matches else None


def peak_flop_per_s(chip: Chip, precision: Precision) -> float | None:
    """Return the peak dense GEMM FLOP/s at a precision; None where it is unknown."""
    field = FORMATS[precision].peak
    peak: float | None = getattr(chip.dense, f"{field}_flop_per_s")
    if peak is None and field == "fp8" and chip.kind == "tpu":
        return chip.dense.int8_flop_per_s  # a TPU without fp8 quantises to int8
    return peak


def training_chip(
    silicon: ChipKernels,
    chip: Chip,
    precision: Precision,
    domain_count: float,
    nic_bytes_per_s: float,
    board_count: float | None = None,
) -> TrainingChip:
    """Return the chip at a precision; its rates are peaks until `calibrated` is applied."""
    peak = peak_flop_per_s(chip, precision)
    half = chip.dense.bf16_flop_per_s or chip.dense.fp16_flop_per_s
    assert peak, f"{chip.name}: no {precision} rate; callers check"
    assert half, f"{chip.name}: no half-precision rate"
    form, scale_up, known = FORMATS[precision], chip.scale_up, measured_ratio(silicon, chip)
    link = silicon.scale_up_bytes_per_s or (scale_up.bytes_per_s if scale_up else nic_bytes_per_s)
    return TrainingChip(
        gemm_flop_per_s=_number(peak),
        gemm_ratio=_number(known),
        bf16_flop_per_s=_number(half),
        bf16_ratio=_number(known),
        hbm_bytes_per_s=_number(silicon.memory_bytes_per_s or chip.memory_bytes_per_s),
        hbm_bytes=_number(silicon.memory_bytes or chip.memory_bytes),
        scaleup_bytes_per_s=_number(link),
        scaleup_chips=_number(domain_count),
        board_chips=_number(board_count or domain_count),
        torus_axes=_number(silicon.torus_axes),
        exponential_ratio=_number(silicon.exponential_ratio),
        nic_bytes_per_s=_number(nic_bytes_per_s or bytes_from_bits(silicon.usual_nic_bits_per_s)),
        sm_count=_number(silicon.sm_count),
        generation=np.asarray(GENERATIONS.index(silicon.generation), dtype=np.int64),
        gemm_bytes=_number(form.operand_bytes),
        elementwise_speed_ratio=_number(1.0),
        cast_bytes=_number(form.cast_bytes),
        host_bytes_per_s=_number(silicon.host_bytes_per_s),
    )


def _number(value: float) -> Array:
    return np.asarray(value, dtype=np.float64)


def measured_ratio(silicon: ChipKernels, chip: Chip) -> float:
    """Return best measured bf16 GEMM over the peak for AMD, whose ratios refer to it; else 1."""
    measured = chip.best_measured.bf16_flop_per_s if chip.best_measured else None
    if silicon.generation != "cdna" or not measured or not chip.dense.bf16_flop_per_s:
        return 1.0
    return measured / chip.dense.bf16_flop_per_s


def ratio_keys(silicon: ChipKernels, precision: Precision) -> tuple[str, str, str]:
    """Return the ratio names of GEMMs, of 16-bit GEMMs, and of a factor on both ("" for none)."""
    kind = FORMATS[precision].ratio
    if silicon.generation == "tpu":
        return f"{silicon.ratio}|bf16", f"{silicon.ratio}|bf16", "" if kind == "bf16" else "TPU|low"
    if silicon.generation == "cdna":
        return silicon.ratio, silicon.ratio, ""
    base = "bf16" if silicon.ratio == "A100" else kind  # Ampere has no fp8
    return f"{silicon.ratio}|{base}", f"{silicon.ratio}|bf16", silicon.factor


def calibrated(
    chip: TrainingChip, silicon: ChipKernels, precision: Precision, calibration: TrainingCalibration
) -> TrainingChip:
    """Return the chip with sustained instead of peak rates."""
    gemm, half, factor = ratio_keys(silicon, precision)
    scale = calibration.ratios[factor] if factor else 1.0
    speed = power_speed(_number(silicon.power_gain_ratio), calibration.constants)
    return with_ratios(
        chip,
        _number(calibration.ratios[gemm]),
        _number(calibration.ratios[half]),
        _number(scale),
        speed,
    )


def power_speed(power_gain_ratio: Array, constants: TrainingConstants) -> Array:
    """Return the speed gain of a higher power limit: ultra_ratio is GB300 (1,400 W) over GB200."""
    return np.asarray(
        constants.ultra_ratio ** (np.log(power_gain_ratio) / np.log(1400.0 / 1200.0)),
        dtype=np.float64,
    )


def with_ratios(
    chip: TrainingChip, gemm: Array, half: Array, factor: Array, speed: Array
) -> TrainingChip:
    """Return chips with calibrated ratios; a TPU's factor is for low precision only."""
    tpu = chip.generation == GENERATIONS.index("tpu")
    return replace(
        chip,
        gemm_ratio=chip.gemm_ratio * gemm * factor * speed,
        bf16_ratio=chip.bf16_ratio * half * np.where(tpu, 1.0, factor) * speed,
        elementwise_speed_ratio=speed,
    )
