"""CPU-only LLM serving: the chip, the engine and the constants of the serving model."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_file
from gpuyard.perf.inference.calibration import ServingCalibration, read_calibration
from gpuyard.perf.inference.chip import ServingChip, serving_chip
from gpuyard.perf.inference.serving_engine import ServingEngine, find_engine

ENGINE = "vllm-cpu"
MODEL = "vllm-v1"  # the same scheduler
GROUP = "cpu"
NEAREST = "ada"  # unknown constants of CPUs are those of the smallest GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedValue:
    """A number with its source."""

    name: str
    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    constants: tuple[SourcedValue, ...]


@functools.cache
def calibration() -> ServingCalibration:
    """Return the calibration of the serving model with the constants of CPUs."""
    path = Path(__file__).parent.parent / "data" / "processors.toml"
    own = {
        item.name: item.value
        for item in decode(read_file(path).root, _File, Keys.SUFFIXED).constants
    }
    known = dict(read_calibration().values)
    substitutes = {
        f"{new}{name.removeprefix(old)}": value
        for new, old in ((ENGINE, MODEL), (GROUP, NEAREST))
        for name, value in known.items()
        if name.startswith(f"{old}.")
    }
    return ServingCalibration(values=known | substitutes | own)


def engine_named(name: str) -> ServingEngine:
    """Return the engine of the serving model."""
    return replace(find_engine(MODEL), name=ENGINE) if name == ENGINE else find_engine(name)


def processor_of(machine: Machine, catalog: Catalog) -> Chip | None:
    """Return the CPU of a machine without accelerators, if it has matrix units."""
    if machine.chip is not None:
        return None
    cpu = next((chip for chip in catalog.chips if chip.name == machine.cpu), None)
    if cpu and cpu.dense.bf16_flop_per_s and cpu.core_count and machine.core_count:
        return cpu
    return None


def serving_on(machine: Machine, chip: Chip) -> ServingChip | None:
    """Return the chip that serves: one accelerator, or all cores of a CPU machine."""
    if chip.kind != "cpu":
        return serving_chip(chip)
    share = (machine.core_count or 0) / (chip.core_count or 1)
    return ServingChip(
        name=chip.name,
        kernels=GROUP,
        link="pcie5",  # unused: a replica is one machine
        calibrated=False,
        memory_bytes=machine.memory_bytes,
        memory_bytes_per_s=share * chip.memory_bytes_per_s,
        bf16_flop_per_s=share * (chip.dense.bf16_flop_per_s or 0.0),
        fp8_flop_per_s=0.0,
        fp4_flop_per_s=0.0,
        int8_flop_per_s=share * (chip.dense.int8_flop_per_s or 0.0),
        link_bytes_per_s=0.0,
        link_chip_count=1,
    )
