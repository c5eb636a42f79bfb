"""Published MoE training recipes by release, model, chip and precision."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file

Graphs = Literal["none", "router", "partial", "full"]
Dispatcher = Literal["alltoall", "flex"]
Module = Literal["mla_up_proj", "moe_act", "layernorm", "core_attn"]
# Share of a layer's kernel launches inside CUDA graphs, by what is captured.
GRAPHS: dict[Graphs, float] = {"none": 0.0, "router": 0.3, "partial": 0.6, "full": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeSettings:
    """Training settings of the experts of an MoE model."""

    dispatcher: Annotated[
        Dispatcher, Doc("all-to-all, or flex: DeepEP or HybridEP, one copy of a token per rank")
    ] = "alltoall"
    overlap: Annotated[bool, Doc("all-to-all overlapped with another micro-batch's compute")] = (
        False
    )
    graphs: Annotated[Graphs, Doc("what CUDA graphs capture")] = "none"
    fused: Annotated[bool, Doc("expert GEMMs, activation and casts in one kernel")] = False
    flash: Annotated[bool, Doc("false: unfused attention")] = True
    etp: Annotated[str, Doc("expert tensor-parallel size; tp: the tensor-parallel size")] = "1"
    recompute: Annotated[tuple[Module, ...] | None, Doc("recomputed modules; none: not stated")] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeRecipe:
    """Settings of the runs that the patterns match; a blank keeps an earlier recipe's setting."""

    framework: str
    model: str = ""
    chip: str = ""
    precision: str = ""
    first: str = ""
    until: str = "9"
    dispatcher: Dispatcher | None = None
    overlap: bool | None = None
    graphs: Graphs | None = None
    fused: bool | None = None
    flash: bool | None = None
    etp: str | None = None
    recompute: tuple[Module, ...] | None = None

    def matches(self, framework: str, date: str, model: str, chip: str, precision: str) -> bool:
        """Return whether the recipe applies to such a run."""
        pairs = (
            (self.framework, framework),
            (self.model, model),
            (self.chip, chip),
            (self.precision, precision),
        )
        return self.first <= date < self.until and all(
            re.search(pattern, cell) for pattern, cell in pairs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    recipes: tuple[MoeRecipe, ...]


@functools.cache
def read_recipes() -> tuple[MoeRecipe, ...]:
    """Return the shipped recipes, in order."""
    path = Path(__file__).parent / "data" / "recipes.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).recipes


def choose_settings(
    framework: str, date: str, model: str, chip: str, precision: str
) -> MoeSettings:
    """Return the settings of all matching recipes; the last one wins."""
    settings = MoeSettings()
    for recipe in read_recipes():
        if recipe.matches(framework, date or "8", model, chip, precision):
            cells = {field.name: getattr(recipe, field.name) for field in fields(MoeSettings)}
            stated = {name: value for name, value in cells.items() if value is not None}
            settings = replace(settings, **stated)
    return settings
