"""Models that answer in one pass (images, encoders, recommenders, trees): the time of a batch, from published runs.

A batch of b samples takes a call's fixed time, then the longer of its arithmetic and one reading of the weights:

    t(b) = call + max(b x flop / (peak x efficiency), weights / bandwidth)

Efficiencies and calls are medians over MLPerf Inference runs of the same family of models on the chip; where the chip
has none, over all chips of its kind, with the error that leaving a chip out of the median makes.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog import Catalog, Chip, Model
from gpuyard.document import Keys, decode, read_file
from gpuyard.units import DURATION, RATE

__all__ = ["Family", "Pace", "Work", "family_of", "pace", "peak_flop_per_s", "tree_pace", "work_of"]

Family = Literal["convolution", "encoder", "recommender"]
Scenario = Literal["offline", "server", "single"]
LEAST_ERROR = 0.1  # repeated submissions of one system differ by this much at times


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A published benchmark: the family of its model, and what one sample is in the units of the model's row."""

    name: str
    family: Family
    units: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A model of a family that has no benchmark of its own."""

    name: str
    family: Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One published result."""

    name: str
    benchmark: str
    chip: str
    chip_count: int
    scenario: Scenario
    source: str
    rate_per_s: Annotated[float | None, RATE] = None
    latency_s: Annotated[float | None, DURATION] = None
    cores: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """What walking trees costs on one core."""

    visit_s: Annotated[float, DURATION]
    call_s: Annotated[float, DURATION]
    error_ratio: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The data file."""

    benchmarks: tuple[Benchmark, ...]
    families: tuple[Member, ...]
    trees: Trees
    runs: tuple[Run, ...]


@functools.cache
def _data() -> _File:
    """The published runs."""
    return decode(read_file(Path(__file__).parent / "data" / "samples.toml").root, _File, Keys.SUFFIXED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one request asks of a model."""

    family: Family
    flop: float
    parameters: float
    words: str  # what a request is


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a chip does one family of models."""

    flop_per_s: float
    memory_bytes_per_s: float
    call_s: float
    server_ratio: float  # of the offline rate, under a limit on the 99th percentile
    error_ratio: float
    runs: int  # published ones of this family on this very chip

    def batch_s(self, flop: float, weight_bytes: float, batch: float) -> float:
        """The time of a batch."""
        return self.call_s + max(batch * flop / self.flop_per_s, weight_bytes / self.memory_bytes_per_s)

    def scaled(self, share: float) -> Pace:
        """The pace of so many such chips, or of a share of one, together."""
        return Pace(
            flop_per_s=self.flop_per_s * share,
            memory_bytes_per_s=self.memory_bytes_per_s * share,
            call_s=self.call_s,
            server_ratio=self.server_ratio,
            error_ratio=self.error_ratio,
            runs=self.runs,
        )


def family_of(model: Model) -> Family | None:
    """The family whose runs stand for the model; None where none does."""
    data = _data()
    known = {item.name: item.family for item in data.benchmarks} | {item.name: item.family for item in data.families}
    if model.name in known:
        return known[model.name]
    by_kind: dict[str, Family] = {"vision": "convolution", "encoder": "encoder", "recommender": "recommender"}
    return by_kind.get(model.kind)


def work_of(model: Model, tokens: float | None = None) -> Work | None:
    """What one request asks; `tokens` of a text for models that read text. None where the model's row does not tell."""
    family = family_of(model)
    if family is None:
        return None
    own = next((item for item in _data().benchmarks if item.name == model.name), None)
    units = own.units if own else 1.0
    if model.transformer is not None:
        length = tokens or units
        return Work(
            family=family,
            flop=_encoder_flop(model, length),
            parameters=model.parameters_count,
            words=f"a text of {length:,.0f} tokens",
        )
    if model.forward_flop_per_sample is None:
        return None
    words = "one sample" if units == 1.0 else f"{units:,.0f} samples, as in MLPerf"
    return Work(
        family=family, flop=units * model.forward_flop_per_sample, parameters=model.parameters_count, words=words
    )


def _encoder_flop(model: Model, tokens: float) -> float:
    """A pass of an encoder over one text."""
    shape = model.transformer
    assert shape is not None, "callers ask for a transformer"
    tables = shape.vocab * shape.hidden + shape.learned_positions * shape.hidden
    return (
        2.0 * tokens * (shape.parameters() - tables)           # products
        + 4.0 * shape.layers * tokens**2 * shape.hidden        # scores and values
    )  # fmt: skip


def peak_flop_per_s(chip: Chip, precision: str | None = None) -> float | None:
    """The dense peak that such models run at: eight bits where the chip has them, unless a precision is asked for."""
    dense = chip.dense
    if precision is not None:
        value: float | None = getattr(dense, f"{precision}_flop_per_s")
        return value
    eight = max(dense.int8_flop_per_s or 0.0, dense.fp8_flop_per_s or 0.0)
    return eight or dense.bf16_flop_per_s or dense.fp16_flop_per_s or dense.fp32_flop_per_s


def pace(family: Family, chip: Chip, catalog: Catalog, precision: str | None = None) -> Pace | None:
    """The chip's pace; None where no rate of it is known or nothing of its kind was measured."""
    peak = peak_flop_per_s(chip, precision)
    alike = [run for run in _runs(family) if _is_alike(catalog.chip(run.chip), chip)]
    if peak is None or not alike:
        return None
    shares = _by_chip(alike, "offline", lambda run: _efficiency(run, catalog))
    if not shares:
        return None
    own = chip.name in shares
    share = shares[chip.name] if own else statistics.median(shares.values())
    call_s = _least_call_s(family, catalog) if chip.kind == "cpu" else _own_call_s(chip, alike, shares, catalog)
    return Pace(
        flop_per_s=peak * share,
        memory_bytes_per_s=chip.memory_bytes_per_s,
        call_s=call_s,
        server_ratio=statistics.median(_server_ratios(alike)),
        error_ratio=LEAST_ERROR if own else _unmeasured_error(chip, catalog),
        runs=sum(run.chip == chip.name for run in alike),
    )


def _own_call_s(chip: Chip, alike: Sequence[Run], shares: dict[str, float], catalog: Catalog) -> float:
    """The fixed time of a call on the chip, or the median over the others."""
    calls = _by_chip(alike, "single", lambda run: _call_s(run, catalog, shares))
    return calls[chip.name] if chip.name in calls else statistics.median(calls.values())


def _least_call_s(family: Family, catalog: Catalog) -> float:
    """The least fixed time on any processor: runs without SingleStream tell only an upper bound of it."""
    runs = [run for run in _runs(family) if catalog.chip(run.chip).kind == "cpu"]
    shares = _by_chip(runs, "offline", lambda run: _efficiency(run, catalog))
    return min(_by_chip(runs, "single", lambda run: _call_s(run, catalog, shares)).values())


def tree_pace(model: Model) -> tuple[float, Trees]:
    """Seconds of one row on one core without the call, and what they rest on; an operation is half a visit."""
    trees = _data().trees
    return (model.forward_flop_per_sample or 0.0) / 2.0 * trees.visit_s, trees


def _runs(family: Family) -> list[Run]:
    """The published runs of a family."""
    names = {item.name for item in _data().benchmarks if item.family == family}
    return [run for run in _data().runs if run.benchmark in names]


def _by_chip(runs: Iterable[Run], scenario: Scenario, value: Callable[[Run], float | None]) -> dict[str, float]:
    """The median over each chip's runs of a scenario."""
    found: dict[str, list[float]] = {}
    for run in runs:
        number = value(run) if run.scenario == scenario else None
        if number is not None:
            found.setdefault(run.chip, []).append(number)
    return {name: statistics.median(values) for name, values in found.items()}


def _flop(run: Run, catalog: Catalog) -> float:
    """Operations of one sample of the run's benchmark."""
    work = work_of(catalog.model(run.benchmark))
    assert work is not None, "every benchmark is of a model that the catalog describes"
    return work.flop


def _chips(run: Run, chip: Chip) -> float:
    """Chips of the run; processors are counted by cores."""
    return run.chip_count * (run.cores / chip.core_count if run.cores and chip.core_count else 1.0)


def _efficiency(run: Run, catalog: Catalog) -> float | None:
    """The share of the peak that an offline run reached."""
    chip = catalog.chip(run.chip)
    peak = peak_flop_per_s(chip)
    return run.rate_per_s * _flop(run, catalog) / (peak * _chips(run, chip)) if peak and run.rate_per_s else None


def _call_s(run: Run, catalog: Catalog, shares: dict[str, float]) -> float | None:
    """What is left of one sample's latency after its arithmetic and its weights; never below nothing."""
    chip, model = catalog.chip(run.chip), catalog.model(run.benchmark)
    peak = peak_flop_per_s(chip)
    if run.latency_s is None or peak is None or run.chip not in shares:
        return None
    busy = _flop(run, catalog) / (peak * shares[run.chip])
    weights = model.parameters_count / chip.memory_bytes_per_s if model.kind != "recommender" else 0.0
    return max(run.latency_s - max(busy, weights), 0.0)


def _server_ratios(runs: Iterable[Run]) -> list[float]:
    """Server over offline of each system that has both."""
    rates = {(run.source, run.benchmark, run.scenario): run.rate_per_s for run in runs if run.rate_per_s}
    return [
        value / rates[(source, benchmark, "offline")]
        for (source, benchmark, scenario), value in rates.items()
        if scenario == "server" and (source, benchmark, "offline") in rates
    ] or [1.0]


def _is_alike(measured: Chip, chip: Chip) -> bool:
    """True of chips whose shares of the peak can be compared: of one kind and, for processors, with the same cores."""
    matrix = bool(measured.dense.int8_flop_per_s) == bool(chip.dense.int8_flop_per_s)
    return measured.kind == chip.kind and (chip.kind != "cpu" or matrix)


def _unmeasured_error(chip: Chip, catalog: Catalog) -> float:
    """The largest error of guessing a chip's share from the others' in any family; a factor of two without two."""
    errors = []
    for family in sorted({item.family for item in _data().benchmarks}):
        alike = [run for run in _runs(family) if _is_alike(catalog.chip(run.chip), chip)]
        shares = _by_chip(alike, "offline", lambda run: _efficiency(run, catalog))
        for name, share in shares.items() if len(shares) > 1 else ():
            guess = statistics.median(value for other, value in shares.items() if other != name)
            errors.append(max(guess / share, share / guess) - 1.0)
    return max(errors, default=1.0)
