"""Language models on processors alone: the chip, the engine and the constants that stand for them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.catalog import Catalog, Chip, Machine
from gpuyard.document import Keys, decode, read_file
from gpuyard.perf.inference import Calibration, Engine, ServingChip, find_engine, read_calibration, serving_chip

__all__ = ["calibration", "engine_named", "processor_of", "serving_on"]

ENGINE, MODEL = "vllm-cpu", "vllm-v1"  # the same scheduler on other cores
GROUP, NEAREST = "cpu", "ada"  # what is not known of processors is taken from the smallest GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A number with what it rests on."""

    name: str
    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The data file."""

    constants: tuple[Constant, ...]


@functools.cache
def calibration() -> Calibration:
    """The serving model's numbers with those of processors."""
    path = Path(__file__).parent.parent / "data" / "processors.toml"
    own = {item.name: item.value for item in decode(read_file(path).root, _File, Keys.SUFFIXED).constants}
    known = dict(read_calibration().values)
    stand_ins = {
        f"{new}{name.removeprefix(old)}": value
        for new, old in ((ENGINE, MODEL), (GROUP, NEAREST))
        for name, value in known.items()
        if name.startswith(f"{old}.")
    }
    return Calibration(values=known | stand_ins | own)


def engine_named(name: str) -> Engine:
    """The serving model's engine of that name."""
    return replace(find_engine(MODEL), name=ENGINE) if name == ENGINE else find_engine(name)


def processor_of(machine: Machine, catalog: Catalog) -> Chip | None:
    """The processor of a machine without accelerators, where it has matrix units."""
    if machine.chip is not None:
        return None
    found = next((chip for chip in catalog.chips if chip.name == machine.cpu), None)
    return found if found and found.dense.bf16_flop_per_s and found.core_count and machine.core_count else None


def serving_on(machine: Machine, chip: Chip) -> ServingChip | None:
    """What serves on the machine: one of its accelerators, or all its cores as one."""
    if chip.kind != "cpu":
        return serving_chip(chip)
    share = (machine.core_count or 0) / (chip.core_count or 1)
    return ServingChip(
        name=chip.name,
        kernels=GROUP,
        link="pcie5",  # not used: one replica is one machine
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
