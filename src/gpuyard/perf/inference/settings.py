"""Settings of published offline runs: batch, max batched tokens, memory, policy."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.units import TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Settings of some runs of a release; blanks keep the engine's."""

    name: str
    release: Annotated[str, Doc("pattern over the engine's version")]
    model: Annotated[str, Doc("pattern over the model's name")] = ""
    tp: Annotated[int, Doc("0: any")] = 0
    length_tokens: Annotated[int, TOKENS, Doc("prompt and output together; 0: any")] = 0
    sequences: int | None = None
    budget_tokens: Annotated[int | None, TOKENS] = None
    memory_ratio: float | None = None
    reserves: bool | None = None
    graphs_listed: bool | None = None
    spare_logits: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    settings: tuple[Setting, ...]


@functools.cache
def _read() -> tuple[Setting, ...]:
    return decode(
        read_file(Path(__file__).parent / "data" / "settings.toml").root, _File, Keys.SUFFIXED
    ).settings


def apply_settings(
    engine: ServingEngine, release: str, model: str, tp: int, length_tokens: int
) -> ServingEngine:
    """Return the engine with the settings of published runs of that release."""
    for item in _read():
        matches = re.search(item.release, release) and re.search(item.model, model)
        if not matches or item.tp not in (0, tp) or item.length_tokens not in (0, length_tokens):
            continue
        engine = replace(
            engine,
            sequence_count=item.sequences or engine.sequence_count,
            budget_tokens=item.budget_tokens or engine.budget_tokens,
            memory_ratio=item.memory_ratio or engine.memory_ratio,
            reserves=engine.reserves if item.reserves is None else item.reserves,
            graphs_listed=engine.graphs_listed
            if item.graphs_listed is None
            else item.graphs_listed,
            spare_logits=engine.spare_logits if item.spare_logits is None else item.spare_logits,
            tuned=False if item.sequences else engine.tuned,
        )
    return engine
