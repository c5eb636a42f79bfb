"""Single-pass models (vision, encoders, recommenders, trees): batch time from published runs.

A batch of b samples takes a fixed time per call plus the longer of compute and a weight read.

    t(b) = call + max(b × flop / (peak × efficiency), weights / bandwidth)

Efficiencies and calls are medians over MLPerf Inference runs of the model's family on the chip; of
a chip without runs, over all chips of its kind, with the hold-out error of that median.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.models import Model
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_file
from gpuyard.units import DURATION, RATE

Family = Literal["convolution", "encoder", "recommender"]
Scenario = Literal["offline", "server", "single"]
MIN_ERROR = 0.1  # repeated submissions of one system differ by up to this


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A published benchmark: the family of its model, and catalog samples per benchmark sample."""

    name: str
    family: Family
    units: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A model without its own benchmark, and its family."""

    name: str
    family: Family


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePassResult:
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
class TreeInferenceCost:
    """Cost of tree inference on one core."""

    visit_s: Annotated[float, DURATION]
    call_s: Annotated[float, DURATION]
    error_ratio: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    benchmarks: tuple[Benchmark, ...]
    families: tuple[Member, ...]
    trees: TreeInferenceCost
    runs: tuple[SinglePassResult, ...]


@functools.cache
def _data() -> _File:
    return decode(
        read_file(Path(__file__).parent / "data" / "single_pass.toml").root, _File, Keys.SUFFIXED
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestWork:
    """Work of one request."""

    family: Family
    flop: float
    parameters: float
    description: str  # of a request


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePassRate:
    """Throughput of a chip for one family of models."""

    flop_per_s: float
    memory_bytes_per_s: float
    call_s: float
    server_ratio: float  # of the offline rate, under a p99 latency limit
    error_ratio: float
    runs: int  # published runs of this family on this chip

    def batch_s(self, flop: float, weight_bytes: float, batch: float) -> float:
        return self.call_s + max(
            batch * flop / self.flop_per_s, weight_bytes / self.memory_bytes_per_s
        )

    def scaled(self, share: float) -> SinglePassRate:
        """Return the throughput of `share` chips, or of a fraction of one."""
        return replace(
            self,
            flop_per_s=self.flop_per_s * share,
            memory_bytes_per_s=self.memory_bytes_per_s * share,
        )


def family_of(model: Model) -> Family | None:
    """Return the family of a model; None for other kinds of models."""
    data = _data()
    known = {item.name: item.family for item in data.benchmarks} | {
        item.name: item.family for item in data.families
    }
    if model.name in known:
        return known[model.name]
    by_kind: dict[str, Family] = {
        "vision": "convolution",
        "encoder": "encoder",
        "recommender": "recommender",
    }
    return by_kind.get(model.kind)


def work_of(model: Model, tokens: float | None = None) -> RequestWork | None:
    """Return the work of a request; None where the catalog row has no FLOPs.

    tokens: length of a text, for encoders.
    """
    family = family_of(model)
    if family is None:
        return None
    own = next((item for item in _data().benchmarks if item.name == model.name), None)
    units = own.units if own else 1.0
    if model.transformer is not None:
        length = tokens or units
        return RequestWork(
            family=family,
            flop=_encoder_flop(model, length),
            parameters=model.parameters_count,
            description=f"a text of {length:,.0f} tokens",
        )
    if model.forward_flop_per_sample is None:
        return None
    description = "one sample" if units == 1.0 else f"{units:,.0f} samples, as in MLPerf"
    return RequestWork(
        family=family,
        flop=units * model.forward_flop_per_sample,
        parameters=model.parameters_count,
        description=description,
    )


def _encoder_flop(model: Model, tokens: float) -> float:
    shape = model.transformer
    assert shape is not None, "callers pass a transformer"
    tables = shape.vocab * shape.hidden + shape.learned_positions * shape.hidden
    return (
        2.0 * tokens * (shape.parameters() - tables)  # GEMMs
        + 4.0 * shape.layers * tokens**2 * shape.hidden  # scores and values
    )


def peak_flop_per_s(chip: Chip, precision: str | None = None) -> float | None:
    """Return the dense peak: at `precision`, else 8-bit where the chip has it."""
    dense = chip.dense
    if precision is not None:
        value: float | None = getattr(dense, f"{precision}_flop_per_s")
        return value
    eight = max(dense.int8_flop_per_s or 0.0, dense.fp8_flop_per_s or 0.0)
    return eight or dense.bf16_flop_per_s or dense.fp16_flop_per_s or dense.fp32_flop_per_s


def single_pass_rate(
    family: Family, chip: Chip, catalog: Catalog, precision: str | None = None
) -> SinglePassRate | None:
    """Return the chip's throughput; None without a peak or without published runs of its kind."""
    peak = peak_flop_per_s(chip, precision)
    comparable = [run for run in _runs(family) if _is_comparable(catalog.chip(run.chip), chip)]
    if peak is None or not comparable:
        return None
    shares = _by_chip(comparable, "offline", lambda run: _efficiency(run, catalog))
    if not shares:
        return None
    own = chip.name in shares
    share = shares[chip.name] if own else statistics.median(shares.values())
    call_s = (
        _min_cpu_call_s(family, catalog)
        if chip.kind == "cpu"
        else _chip_call_s(chip, comparable, shares, catalog)
    )
    return SinglePassRate(
        flop_per_s=peak * share,
        memory_bytes_per_s=chip.memory_bytes_per_s,
        call_s=call_s,
        server_ratio=statistics.median(_server_ratios(comparable)),
        error_ratio=MIN_ERROR if own else _unmeasured_error(chip, catalog),
        runs=sum(run.chip == chip.name for run in comparable),
    )


def _chip_call_s(
    chip: Chip, comparable: Sequence[SinglePassResult], shares: dict[str, float], catalog: Catalog
) -> float:
    """Return the fixed time per call on the chip, or the median over the others."""
    calls = _by_chip(comparable, "single", lambda run: _call_s(run, catalog, shares))
    return calls[chip.name] if chip.name in calls else statistics.median(calls.values())


def _min_cpu_call_s(family: Family, catalog: Catalog) -> float:
    """Return the lowest fixed time of any CPU, an upper bound: CPUs have no SingleStream runs."""
    runs = [run for run in _runs(family) if catalog.chip(run.chip).kind == "cpu"]
    shares = _by_chip(runs, "offline", lambda run: _efficiency(run, catalog))
    return min(_by_chip(runs, "single", lambda run: _call_s(run, catalog, shares)).values())


def tree_cost(model: Model) -> tuple[float, TreeInferenceCost]:
    """Return core seconds per row without the call overhead; a node visit counts as two FLOPs."""
    trees = _data().trees
    return (model.forward_flop_per_sample or 0.0) / 2.0 * trees.visit_s, trees


def _runs(family: Family) -> list[SinglePassResult]:
    names = {item.name for item in _data().benchmarks if item.family == family}
    return [run for run in _data().runs if run.benchmark in names]


def _by_chip(
    runs: Iterable[SinglePassResult],
    scenario: Scenario,
    value: Callable[[SinglePassResult], float | None],
) -> dict[str, float]:
    """Return the median over each chip's runs of a scenario."""
    by_chip: dict[str, list[float]] = {}
    for run in runs:
        number = value(run) if run.scenario == scenario else None
        if number is not None:
            by_chip.setdefault(run.chip, []).append(number)
    return {name: statistics.median(values) for name, values in by_chip.items()}


def _flop(run: SinglePassResult, catalog: Catalog) -> float:
    """Return the FLOPs of one sample of the run's benchmark."""
    work = work_of(catalog.model(run.benchmark))
    assert work is not None, "the catalog has every benchmark's model"
    return work.flop


def _chips(run: SinglePassResult, chip: Chip) -> float:
    """Return the chips of the run; CPUs are counted by cores."""
    return run.chip_count * (run.cores / chip.core_count if run.cores and chip.core_count else 1.0)


def _efficiency(run: SinglePassResult, catalog: Catalog) -> float | None:
    """Return the efficiency of an offline run: model FLOP/s over the peak."""
    chip = catalog.chip(run.chip)
    peak = peak_flop_per_s(chip)
    return (
        run.rate_per_s * _flop(run, catalog) / (peak * _chips(run, chip))
        if peak and run.rate_per_s
        else None
    )


def _call_s(run: SinglePassResult, catalog: Catalog, shares: dict[str, float]) -> float | None:
    """Return one sample's latency less its roofline, at least 0."""
    chip, model = catalog.chip(run.chip), catalog.model(run.benchmark)
    peak = peak_flop_per_s(chip)
    if run.latency_s is None or peak is None or run.chip not in shares:
        return None
    busy = _flop(run, catalog) / (peak * shares[run.chip])
    weights = (
        model.parameters_count / chip.memory_bytes_per_s if model.kind != "recommender" else 0.0
    )
    return max(run.latency_s - max(busy, weights), 0.0)


def _server_ratios(runs: Iterable[SinglePassResult]) -> list[float]:
    """Return server over offline throughput of each system that has both."""
    rates = {
        (run.source, run.benchmark, run.scenario): run.rate_per_s for run in runs if run.rate_per_s
    }
    return [
        value / rates[(source, benchmark, "offline")]
        for (source, benchmark, scenario), value in rates.items()
        if scenario == "server" and (source, benchmark, "offline") in rates
    ] or [1.0]


def _is_comparable(measured: Chip, chip: Chip) -> bool:
    """Return whether shares of the peak are comparable: one kind, CPUs by matrix cores."""
    matrix = bool(measured.dense.int8_flop_per_s) == bool(chip.dense.int8_flop_per_s)
    return measured.kind == chip.kind and (chip.kind != "cpu" or matrix)


def _unmeasured_error(chip: Chip, catalog: Catalog) -> float:
    """Return the largest hold-out error of a chip's share in any family; else 100 %."""
    errors = []
    for family in sorted({item.family for item in _data().benchmarks}):
        comparable = [run for run in _runs(family) if _is_comparable(catalog.chip(run.chip), chip)]
        shares = _by_chip(comparable, "offline", lambda run: _efficiency(run, catalog))
        for name, share in shares.items() if len(shares) > 1 else ():
            predicted = statistics.median(value for other, value in shares.items() if other != name)
            errors.append(max(predicted / share, share / predicted) - 1.0)
    return max(errors, default=1.0)
