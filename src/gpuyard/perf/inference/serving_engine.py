"""Serving engines by release range: scheduling, memory sharing, fitted overheads."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.errors import InputError, closest_match
from gpuyard.units import TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEngine:
    """A serving engine in a range of releases with the same overheads."""

    name: str
    family: Annotated[str, Doc("engines with one code base")]
    runtime: Annotated[str, Doc("engines with one runtime and similar overheads")]
    code: Annotated[
        str, Doc("engines with the same GPU kernels, whatever the front end; empty: its own")
    ] = ""
    experts: Annotated[
        str, Doc("engines with the same MoE kernels; empty: the chip's constants")
    ] = ""
    engine: Annotated[str, Doc("pattern over the engine's name in published runs")]
    version: Annotated[str, Doc("pattern over its version")] = ""
    memory: Annotated[Literal["free", "total", "static"], Doc("base of memory_ratio")] = "total"
    memory_ratio: Annotated[
        float,
        Doc("share of memory for the KV cache (free), all (total), weights and cache (static)"),
    ] = 0.9
    block_tokens: Annotated[int, TOKENS, Doc("tokens per KV-cache block")] = 16
    sequence_count: Annotated[int, Doc("maximum sequences per step")] = 256
    budget_tokens: Annotated[int, TOKENS, Doc("max batched tokens per step")] = 8192
    mixes: Annotated[bool, Doc("prefill and decode share a step; false: prefill first, alone")] = (
        True
    )
    chunks: Annotated[bool, Doc("chunked prefill")] = True
    reserves: Annotated[bool, Doc("admission reserves KV cache for the whole output")] = False
    tuned: Annotated[
        bool, Doc("sequence_count and budget_tokens from KV-cache capacity (trtllm-bench)")
    ] = False
    graphs: Annotated[
        bool, Doc("CUDA graphs replay decode steps; false: eager kernel launches")
    ] = True
    groups: Annotated[
        tuple[int, int],
        Doc("query heads per KV head that decode on tensor cores: minimum, maximum"),
    ] = (1, 1024)
    beams: Annotated[int, Doc("beams per request, which share the prompt's KV cache")] = 1
    spare_logits: Annotated[int, Doc("allocated and unused logit buffers")] = 0
    direct: Annotated[bool, Doc("two ranks all-reduce by direct reads, also over PCIe")] = False
    slot_tokens: Annotated[
        int, TOKENS, Doc("fixed KV-cache slot per sequence, read in full every step; 0: none")
    ] = 0
    pads: Annotated[
        bool,
        Doc("decode steps are padded to CUDA graph sizes (powers of two and 384)"),
    ] = False
    graph_sequences: Annotated[int, Doc("largest CUDA graph in sequences; 0: any")] = 0
    graphs_listed: Annotated[
        bool,
        Doc("CUDA graphs of listed sizes only; false: one more for the maximum batch"),
    ] = False
    overlaps: Annotated[bool, Doc("the next step is scheduled before the last one ends")] = False
    windows: Annotated[bool, Doc("sliding-window layers free the KV cache beyond the window")] = (
        True
    )
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    engines: tuple[ServingEngine, ...]


@functools.cache
def read_engines() -> tuple[ServingEngine, ...]:
    """Return the shipped engines, in order."""
    return decode(
        read_file(Path(__file__).parent / "data" / "engines.toml").root, _File, Keys.SUFFIXED
    ).engines


def find_engine(name: str) -> ServingEngine:
    """Return the engine of that name."""
    engines = {engine.name: engine for engine in read_engines()}
    if name in engines:
        return engines[name]
    meant = closest_match(name, engines)
    fix = f'use "{meant}"' if meant else f"use one of {', '.join(engines)}"
    raise InputError.one("engine", f'no serving engine named "{name}"', fix)


def choose_engine(engine: str, version: str) -> ServingEngine | None:
    """Return the last engine whose patterns match such a run."""
    matches = [
        e for e in read_engines() if re.search(e.engine, engine) and re.search(e.version, version)
    ]
    return matches[-1] if matches else None
