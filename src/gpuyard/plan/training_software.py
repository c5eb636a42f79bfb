"""Training frameworks: which methods and layouts each of them runs on which chips."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuyard.catalog.chips import Chip, Framework
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_file
from gpuyard.plan.layouts import RECOMPUTE, SHARDING, Space
from gpuyard.workload.sections import Pinned

Method = Literal["full", "lora", "qlora"]
AxisName = Literal["tp", "pp", "cp", "ep"]
ONE = (1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSupport:
    """The layouts that a framework runs for one method."""

    axes: tuple[AxisName, ...]  # besides data parallelism
    sharding: tuple[Literal["none", "optimizer", "parameters", "hybrid"], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSoftware:
    """A training framework and its support per method; None: it does not do the method."""

    name: str
    label: str
    frameworks: tuple[Framework, ...]
    kinds: tuple[Literal["gpu", "tpu"], ...]
    source: str
    date: datetime.date
    vendors: tuple[str, ...] = ()  # empty: any
    full: MethodSupport | None = None
    lora: MethodSupport | None = None
    qlora: MethodSupport | None = None

    def support(self, method: Method) -> MethodSupport | None:
        return {"full": self.full, "lora": self.lora, "qlora": self.qlora}[method]

    def runs_on(self, chip: Chip, framework: Framework | None) -> bool:
        """Return True if it runs on the chip and is written in the framework."""
        return (
            chip.kind in self.kinds
            and (not self.vendors or chip.vendor in self.vendors)
            and (framework is None or framework in self.frameworks)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    software: tuple[TrainingSoftware, ...]


@functools.cache
def read_training_software() -> tuple[TrainingSoftware, ...]:
    """Return the known frameworks in order of preference."""
    path = Path(__file__).parent / "data" / "training_software.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).software


def software_for(
    chip: Chip, method: Method, framework: Framework | None
) -> tuple[TrainingSoftware, ...]:
    """Return the frameworks that run the method on the chip."""
    return tuple(
        item
        for item in read_training_software()
        if item.runs_on(chip, framework) and item.support(method) is not None
    )


def restricted(space: Space, support: MethodSupport) -> Space:
    """Return the part of a layout space that the framework runs."""
    return replace(
        space,
        tp=space.tp if "tp" in support.axes else ONE,
        pp=space.pp if "pp" in support.axes else ONE,
        cp=space.cp if "cp" in support.axes else ONE,
        ep=space.ep if "ep" in support.axes else ONE,
        virtual_stages=space.virtual_stages if "pp" in support.axes else ONE,
        sharding=tuple(SHARDING.index(name) for name in support.sharding),
    )


def pinned_space(space: Space, pinned: Pinned) -> Space:
    """Return the part of a layout space that keeps what the file pins; empty if none does."""

    def allowed(values: tuple[int, ...], value: int | None) -> tuple[int, ...]:
        return values if value is None else tuple(item for item in values if item == value)

    return replace(
        space,
        tp=allowed(space.tp, pinned.tp),
        pp=allowed(space.pp, pinned.pp),
        cp=allowed(space.cp, pinned.cp),
        ep=allowed(space.ep, pinned.ep),
        micro_batch=space.micro_batch if pinned.micro_batch is None else (pinned.micro_batch,),
        sharding=allowed(
            space.sharding, None if pinned.sharding is None else SHARDING.index(pinned.sharding)
        ),
        recompute=allowed(
            space.recompute,
            None if pinned.recompute is None else RECOMPUTE.index(pinned.recompute),
        ),
    )
