"""Published checkpoints of a model: the repository that engines load, per weight format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import SourceNames
from gpuyard.document.field_types import AtLeast, Doc

CheckpointFormat = Literal[
    "bf16", "fp8", "fp8-block", "int8", "int8-weights", "int4-weights", "mxfp4", "nvfp4"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumChips:
    """The fewest chips that a vendor states for a checkpoint."""

    engine: Annotated[str, Doc("a serving engine of the planner")]
    chips: Annotated[tuple[str, ...], Doc("names under chips")]
    count: Annotated[int, AtLeast(1), Doc("chips per replica")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One repository of weights; the name is the one on Hugging Face."""

    name: str
    model: Annotated[str, Doc("a name under models")]
    format: CheckpointFormat
    source: SourceNames
    seen: Annotated[str, Doc("the file of the source that names it")] = ""
    native: Annotated[
        bool, Doc("the maker publishes the model in this format and in no wider one")
    ] = False
    gated: Annotated[bool, Doc("needs an accepted licence and an access token")] = False
    engines: Annotated[
        tuple[str, ...], Doc("serving engines that load it; empty: every engine of the format")
    ] = ()
    minimum_chips: Annotated[
        tuple[MinimumChips, ...], Doc("what vendors state; empty: what fits in memory")
    ] = ()
