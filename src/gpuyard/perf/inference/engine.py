"""Serving engines by era: how they schedule, how they share out memory, and which fitted overheads are theirs."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.document import Doc, Keys, decode, read_file
from gpuyard.errors import InputError, nearest
from gpuyard.units import TOKENS

__all__ = ["Engine", "choose_engine", "find_engine", "read_engines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine in a period."""

    name: str
    family: Annotated[str, Doc("engines that share a code base")]
    runtime: Annotated[str, Doc("engines that share what runs a step; their overheads are alike")]
    code: Annotated[str, Doc("engines of one period of that runtime, whatever stands before it; empty: its own")] = ""
    experts: Annotated[str, Doc("engines that share kernels of experts; empty: those of the chip's constants")] = ""
    engine: Annotated[str, Doc("pattern over the engine's name in published runs")]
    version: Annotated[str, Doc("pattern over its version")] = ""
    memory: Annotated[Literal["free", "total", "static"], Doc("what memory_ratio is a share of")] = "total"
    memory_ratio: Annotated[
        float, Doc("of memory for the cache (free), for everything (total), for weights and cache (static)")
    ] = 0.9
    block_tokens: Annotated[int, TOKENS, Doc("tokens of a cache block")] = 16
    sequence_count: Annotated[int, Doc("most sequences in a step")] = 256
    budget_tokens: Annotated[int, TOKENS, Doc("most tokens in a step")] = 8192
    mixes: Annotated[bool, Doc("prompts and decodes share a step; false: prompts go first, alone")] = True
    chunks: Annotated[bool, Doc("a prompt may be split over steps")] = True
    reserves: Annotated[bool, Doc("a sequence is admitted only with room for all its output")] = False
    tuned: Annotated[bool, Doc("sequence_count and budget_tokens follow from room in the cache (trtllm-bench)")] = False
    graphs: Annotated[bool, Doc("decode steps are replayed from graphs; false: the host launches every kernel")] = True
    groups: Annotated[
        tuple[int, int], Doc("fewest and most query heads of a key's that decode on matrix cores; others do not")
    ] = (1, 1024)
    beams: Annotated[int, Doc("sequences of a search for each request, which share its prompt's cache")] = 1
    spare_logits: Annotated[int, Doc("buffers of logits for the most sequences that it allocates and does not use")] = 0
    direct: Annotated[bool, Doc("two ranks reduce by reading each other's memory, over PCIe too")] = False
    slot_tokens: Annotated[int, TOKENS, Doc("of a sequence's cache, all read in every step; 0: what it holds")] = 0
    pads: Annotated[
        bool, Doc("decode steps run as graphs of few sizes, filled up to the next (powers of two and 384)")
    ] = False
    graph_sequences: Annotated[int, Doc("most sequences of a step that is replayed from a graph; 0: any")] = 0
    graphs_listed: Annotated[
        bool, Doc("graphs have listed sizes alone; larger steps are launched. False: one more is of the most sequences")
    ] = False
    overlaps: Annotated[bool, Doc("the next step is made up before the last one's tokens are out")] = False
    windows: Annotated[bool, Doc("windowed layers give back the cache beyond their window")] = True
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The data file."""

    engines: tuple[Engine, ...]


@functools.cache
def read_engines() -> tuple[Engine, ...]:
    """The shipped engines, in order."""
    return decode(read_file(Path(__file__).parent / "data" / "engines.toml").root, _File, Keys.SUFFIXED).engines


def find_engine(name: str) -> Engine:
    """The engine of that name."""
    engines = {engine.name: engine for engine in read_engines()}
    if name in engines:
        return engines[name]
    meant = nearest(name, engines)
    fix = f'use "{meant}"' if meant else f"use one of {', '.join(engines)}"
    raise InputError.one("engine", f'no serving engine named "{name}"', fix)


def choose_engine(engine: str, version: str) -> Engine | None:
    """The last engine whose patterns match such a run."""
    found = [e for e in read_engines() if re.search(e.engine, engine) and re.search(e.version, version)]
    return found[-1] if found else None
