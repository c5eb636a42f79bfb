"""What the published recipes of mixtures of experts switch on, by release, model, chip and precision."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.document import Doc, Keys, decode, read_file

__all__ = ["GRAPHS", "Recipe", "Settings", "choose_settings"]

Graphs = Literal["none", "router", "partial", "full"]
Dispatcher = Literal["alltoall", "flex"]
Module = Literal["mla_up_proj", "moe_act", "layernorm", "core_attn"]
# Share of a layer's kernel launches that sit in a CUDA graph, by what is captured.
GRAPHS: dict[Graphs, float] = {"none": 0.0, "router": 0.3, "partial": 0.6, "full": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a mixture of experts is run."""

    dispatcher: Annotated[Dispatcher, Doc("all-to-all, or flex: DeepEP or HybridEP, a token once to each rank")] = (
        "alltoall"
    )
    overlap: Annotated[bool, Doc("all-to-all behind another micro-batch's compute")] = False
    graphs: Annotated[Graphs, Doc("what CUDA graphs capture")] = "none"
    fused: Annotated[bool, Doc("expert products, activation and casts in one kernel")] = False
    flash: Annotated[bool, Doc("false: attention that writes its scores")] = True
    etp: Annotated[str, Doc("chips that share an expert; tp: as many as tensor parallelism has")] = "1"
    recompute: Annotated[tuple[Module, ...] | None, Doc("modules computed again; none: not told")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Settings of the runs that the patterns match; a setting that is left out is that of an earlier recipe."""

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
        """Whether it is of such a run."""
        pairs = ((self.framework, framework), (self.model, model), (self.chip, chip), (self.precision, precision))
        return self.first <= date < self.until and all(re.search(pattern, cell) for pattern, cell in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The data file."""

    recipes: tuple[Recipe, ...]


@functools.cache
def read_recipes() -> tuple[Recipe, ...]:
    """The shipped recipes, in order."""
    path = Path(__file__).parent / "data" / "recipes.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).recipes


def choose_settings(framework: str, date: str, model: str, chip: str, precision: str) -> Settings:
    """The settings of all recipes that match, the last one winning for each."""
    found = Settings()
    for recipe in read_recipes():
        if recipe.matches(framework, date or "8", model, chip, precision):
            told = {field.name: getattr(recipe, field.name) for field in fields(Settings)}
            found = replace(found, **{name: value for name, value in told.items() if value is not None})
    return found
