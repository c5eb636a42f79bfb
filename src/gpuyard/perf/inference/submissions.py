"""How submissions to MLPerf Inference were set up: layout, batch, token budget, memory, and how long they ran."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

from gpuyard.document import Doc, Keys, decode, read_file
from gpuyard.perf.inference.engine import Engine, find_engine
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import WeightFormat
from gpuyard.units import DURATION, TOKENS

__all__ = ["Submission", "submission_of"]

PATTERNS = ("round", "model", "chip", "scenario")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What some submissions set; what is left out is as the engine's, or chosen."""

    name: str = ""
    round: Annotated[str, Doc("pattern over the round")] = ""
    model: Annotated[str, Doc("pattern over the model's name")] = ""
    chip: Annotated[str, Doc("pattern over the chip's name")] = ""
    scenario: Annotated[str, Doc("pattern over the scenario")] = ""
    engine: Annotated[str | None, Doc("the era that ran it")] = None
    weights: Annotated[WeightFormat | None, Doc("most of them, where a checkpoint mixes formats")] = None
    tp: int | None = None
    pp: int | None = None
    ranks: Annotated[int | None, Doc("that attend to requests of their own and share the experts")] = None
    sequences: int | None = None
    beams: Annotated[int | None, Doc("of a search, for each sequence")] = None
    budget_tokens: Annotated[int | None, TOKENS] = None
    block_tokens: Annotated[int | None, TOKENS] = None
    memory_ratio: float | None = None
    chunks: bool | None = None
    graphs: bool | None = None
    run_s: Annotated[float | None, DURATION, Doc("least time of a run")] = None
    chip_requests: Annotated[int | None, Doc("least requests of a run, for each chip")] = None

    @property
    def layout(self) -> ReplicaLayout | None:
        """The layout, where it is known."""
        if self.ranks:
            return ReplicaLayout(ep=self.ranks, attention_dp=self.ranks)
        return ReplicaLayout(tp=self.tp, pp=self.pp or 1) if self.tp else None

    def apply(self, engine: Engine) -> Engine:
        """The engine as it was set up."""
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
    """The data file."""

    submissions: tuple[Submission, ...]


@functools.cache
def _read() -> tuple[Submission, ...]:
    """The shipped settings, in order."""
    return decode(read_file(Path(__file__).parent / "data" / "submissions.toml").root, _File, Keys.SUFFIXED).submissions


@functools.cache
def submission_of(of_round: str, model: str, chip: str, scenario: str) -> Submission:
    """All that is known of such a submission; later settings win."""
    found, asked = Submission(), dict(zip(PATTERNS, (of_round, model, chip, scenario), strict=True))
    for item in _read():
        if all(re.search(getattr(item, name), text) for name, text in asked.items()):
            known = {f.name: getattr(item, f.name) for f in fields(item) if f.name not in PATTERNS}
            found = replace(found, **{name: value for name, value in known.items() if value is not None})
    return found
