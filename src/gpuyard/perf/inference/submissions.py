"""Settings of MLPerf Inference submissions: layout, batch, token budget, memory, duration."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import WeightFormat
from gpuyard.perf.inference.serving_engine import ServingEngine, find_engine
from gpuyard.units import DURATION, TOKENS

PATTERNS = ("round", "model", "chip", "scenario")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Settings of some submissions; blanks keep the engine's or are searched."""

    name: str = ""
    round: Annotated[str, Doc("pattern over the round")] = ""
    model: Annotated[str, Doc("pattern over the model's name")] = ""
    chip: Annotated[str, Doc("pattern over the chip's name")] = ""
    scenario: Annotated[str, Doc("pattern over the scenario")] = ""
    engine: Annotated[str | None, Doc("the engine entry")] = None
    weights: Annotated[
        WeightFormat | None, Doc("weight dtype; the most common one of a mixed checkpoint")
    ] = None
    tp: int | None = None
    pp: int | None = None
    ranks: Annotated[
        int | None, Doc("attention data-parallel size, with expert parallelism over it")
    ] = None
    sequences: int | None = None
    beams: Annotated[int | None, Doc("of a beam search, per sequence")] = None
    budget_tokens: Annotated[int | None, TOKENS] = None
    block_tokens: Annotated[int | None, TOKENS] = None
    memory_ratio: float | None = None
    chunks: bool | None = None
    graphs: bool | None = None
    wait_steps: Annotated[float | None, Doc("steps that a prompt waits to be batched")] = None
    transfers: Annotated[bool | None, Doc("separate pools for prefill and decode")] = None
    run_s: Annotated[float | None, DURATION, Doc("minimum duration of a run")] = None
    chip_requests: Annotated[int | None, Doc("minimum requests of a run, per chip")] = None

    @property
    def layout(self) -> ReplicaLayout | None:
        """The layout; None where it is unknown."""
        if self.ranks:
            return ReplicaLayout(ep=self.ranks, attention_dp=self.ranks)
        return ReplicaLayout(tp=self.tp, pp=self.pp or 1) if self.tp else None

    def apply(self, engine: ServingEngine) -> ServingEngine:
        """Return the engine with the settings of the submission."""
        engine = find_engine(self.engine) if self.engine else engine
        return replace(
            engine,
            sequence_count=self.sequences or engine.sequence_count,
            beams=self.beams or engine.beams,
            budget_tokens=self.budget_tokens or engine.budget_tokens,
            block_tokens=self.block_tokens or engine.block_tokens,
            memory_ratio=self.memory_ratio or engine.memory_ratio,
            chunks=engine.chunks if self.chunks is None else self.chunks,
            graphs=engine.graphs if self.graphs is None else self.graphs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    submissions: tuple[Submission, ...]


@functools.cache
def _read() -> tuple[Submission, ...]:
    return decode(
        read_file(Path(__file__).parent / "data" / "submissions.toml").root, _File, Keys.SUFFIXED
    ).submissions


@functools.cache
def submission_of(round_name: str, model: str, chip: str, scenario: str) -> Submission:
    """Return the merged settings of all matching entries; later ones win."""
    submission = Submission()
    query = dict(zip(PATTERNS, (round_name, model, chip, scenario), strict=True))
    for item in _read():
        if all(re.search(getattr(item, name), text) for name, text in query.items()):
            cells = {f.name: getattr(item, f.name) for f in fields(item) if f.name not in PATTERNS}
            stated = {name: value for name, value in cells.items() if value is not None}
            submission = replace(submission, **stated)
    return submission
