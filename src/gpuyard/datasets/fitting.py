"""Fit the steps of a pipeline in as few passes over the data as their statistics allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.datasets.aggregates import (
    Moments,
    MomentsRequest,
    QuantileSketch,
    QuantilesRequest,
)
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import Columns, is_pattern
from gpuyard.datasets.data_pass import Action, Apply, Assign, Gather, Mark, Result, pruned_pass
from gpuyard.datasets.passes import Passes, RowArrays, merge_results
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.split import SplitRule, split_requests, split_rule
from gpuyard.datasets.step import (
    Aggregate,
    Fitted,
    FittedStep,
    Marker,
    RowFilter,
    SeriesPart,
    StatRequest,
    StepSettings,
    written_columns,
)
from gpuyard.datasets.steps.clip import FittedClip
from gpuyard.datasets.steps.impute import FillNumbers, Impute
from gpuyard.datasets.steps.scale import Affine
from gpuyard.errors import InputError

_KEEPS_NULLS = (Affine, FittedClip)  # null stays null and nothing else becomes null
_FILLABLE = (MomentsRequest, QuantilesRequest)  # statistics that can add filled nulls later


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStep:
    """Step with its name and its place in the file."""

    name: str
    where: str
    settings: StepSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineInput:
    """Steps to fit, and the columns of the source that they start from."""

    spec: DataSpec
    steps: tuple[NamedStep, ...]
    columns: Columns
    file_format: str = ""
    floats: frozenset[str] = frozenset()  # columns in which infinities are read as null


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedPipeline:
    """Fitted steps: the actions of the last pass, and the columns after it."""

    source: PipelineInput
    actions: tuple[Action, ...]
    columns: Columns
    widths: tuple[int, ...]  # number of columns after every step
    row_arrays: RowArrays
    assign_at: int  # index of the split among the actions

    @property
    def parts(self) -> tuple[tuple[int, Fitted], ...]:
        """Fitted parts with the index of their step, in order."""
        return tuple(
            (action.step, action.part) for action in self.actions if isinstance(action, Apply)
        )


def fit_steps(
    source: PipelineInput, passes: Passes, *, memory_bytes: float, rule: SplitRule | None = None
) -> FittedPipeline:
    """Fit the steps on the training rows, which `rule` selects if it is already known."""
    return _Fitting(source, passes, memory_bytes, rule).fit()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fill:
    """Fill value that a statistic waits for: its step, and the parts it passes through after."""

    step: int
    column: str
    through: tuple[Affine | FittedClip, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedRequest:
    step: int
    request: StatRequest
    fill: _Fill | None


# Steps are fitted in order. When one lacks statistics, a look ahead collects every request that can
# be answered at that point, also of later steps, and one pass gathers them all. A column whose
# nulls are about to be filled with a value that is not known yet need not wait: its statistics are
# gathered without the nulls, and count × fill is added when the value is known. So impute, clip and
# z-score take one pass. Deduplication reads only its keys.
# Invariant: `columns` and `actions` describe the data after the steps fitted so far.
class _Fitting:
    def __init__(
        self, source: PipelineInput, passes: Passes, memory_bytes: float, rule: SplitRule | None
    ) -> None:
        self.source = source
        self.steps = source.steps
        self.passes = passes
        self.memory_bytes = memory_bytes
        self.rule = rule
        self.columns = source.columns
        self.actions: list[Action] = []
        self.widths: list[int] = []
        self.row_arrays: RowArrays = {}
        self.gathered: dict[tuple[int, StatRequest], tuple[Aggregate, _Fill | None]] = {}
        self.fills: dict[tuple[int, str], float] = {}
        self.assign_at: int | None = None

    def fit(self) -> FittedPipeline:
        at = 0
        while at < len(self.steps):
            step = self.steps[at]
            settings = step.settings.bind(self.columns, step.where)
            requests = settings.requests(self.columns)
            if not all((at, request) in self.gathered for request in requests):
                self.gather(at)
                continue
            statistics = {request: self.statistic(at, request) for request in requests}
            self.append(at, settings.fit_state(statistics, self.columns))
            at += 1
        assign_at = self.assign()
        return FittedPipeline(
            source=self.source,
            actions=tuple(self.actions),
            columns=self.columns,
            widths=tuple(self.widths),
            row_arrays=self.row_arrays,
            assign_at=assign_at,
        )

    def run(self, name: str, actions: Sequence[Action]) -> Sequence[Result]:
        source = self.source
        data_pass = pruned_pass(name, source.file_format, tuple(actions), source.floats)
        return self.passes.run(data_pass, self.row_arrays)

    def append(self, at: int, parts: Sequence[Fitted]) -> None:
        for place, part in enumerate(parts):
            key = f"{at}.{place}"
            if isinstance(part, Marker | SeriesPart):
                self.row_arrays[key] = self.arrays(part, key)
            if isinstance(part, FillNumbers):
                for name, value in zip(part.columns, part.values, strict=True):
                    self.fills[at, name] = value
            before = self.columns
            if isinstance(part, FittedStep):
                self.columns = part.after(before)
            dropped = tuple(name for name in before.names if self.columns.get(name) is None)
            self.actions.append(Apply(step=at, part=part, key=key, drops=dropped))
        self.widths.append(len(self.columns.items))

    def arrays(self, part: Marker | SeriesPart, key: str) -> tuple[np.ndarray, ...]:
        """Return the rows that a part drops, or its new columns, in every partition."""
        name = "keys" if isinstance(part, Marker) else "series"
        marks = [result.marks for result in self.run(name, [*self.actions, Mark(part=part)])]
        if isinstance(part, Marker):
            return part.rows_to_drop(marks, self.memory_bytes)
        shapes = [(len(mark[0]), len(part.writes)) for mark in marks]
        arrays = self.passes.allocate(key, shapes)
        part.fill_arrays(marks, arrays, self.memory_bytes)
        return arrays

    def assign(self) -> int:
        """Split the rows, once, before the first step that is fitted on them."""
        if self.assign_at is not None:
            return self.assign_at
        if self.rule is None:
            spec = self.source.spec
            statistics: tuple[Aggregate, ...] = ()
            requests = split_requests(spec.split, spec.label, self.passes.rows)
            if requests:
                gather = Gather(requests=requests)
                statistics = merge_results(self.run("split", [*self.actions, gather]))
            self.rule = split_rule(spec.split, spec.label, statistics)
        self.assign_at = len(self.actions)
        folds = any(step.settings.USES_FOLDS for step in self.steps)
        self.actions.append(Assign(rule=self.rule, folds=folds))
        return self.assign_at

    def statistic(self, at: int, request: StatRequest) -> Aggregate:
        """Return a statistic of a step, including the nulls that were filled since."""
        aggregate, fill = self.gathered[at, request]
        if fill is None:
            return aggregate
        assert isinstance(aggregate, Moments | QuantileSketch)
        value = self.fills[fill.step, fill.column]
        for part in fill.through:
            value = _transformed(part, fill.column, value)
        return aggregate.fill_nulls(value, aggregate.nulls)

    def gather(self, at: int) -> None:
        self.assign()
        actions, requests = _Lookahead(self, at).run()
        aggregates = merge_results(self.run("statistics", actions))
        for planned, aggregate in zip(requests, aggregates, strict=True):
            self.gathered.setdefault((planned.step, planned.request), (aggregate, planned.fill))


def _transformed(part: Affine | FittedClip, column: str, value: float) -> float:
    slots = Slots()
    operation = part.numpy_operation(slots)
    batch = RowBatch(np.full((1, slots.count), value), {})
    operation(batch)
    return float(batch.numbers[0, slots.number(column)])


class _Lookahead:
    """Statistics that one pass can gather from a step on."""

    def __init__(self, fitting: _Fitting, at: int) -> None:
        self.steps = fitting.steps
        self.at = at
        self.columns = fitting.columns
        self.actions = list(fitting.actions)
        self.planned: list[_PlannedRequest] = []
        self.pending: set[str] = set()  # columns that steps not yet fitted will change
        self.filled: dict[str, _Fill] = {}

    def run(self) -> tuple[list[Action], list[_PlannedRequest]]:
        for number in range(self.at, len(self.steps)):
            if not self.step(number):
                break
        return self.actions, self.planned

    def step(self, number: int) -> bool:
        """Look at one step; return False where the look ahead ends."""
        step = self.steps[number]
        if self.columns.open and any(is_pattern(name) for name in _column_names(step.settings)):
            return False
        try:
            settings = step.settings.bind(self.columns, step.where)
        except InputError:
            if number == self.at:
                raise
            return False  # raised again when its turn comes, with all columns known
        requests = settings.requests(self.columns)
        if not requests:
            return all(self.part(number, part) for part in settings.fit_state({}, self.columns))
        self.add_requests(number, requests)
        self.note_changes(number, settings, requests)
        return True

    def add_requests(self, number: int, requests: Sequence[StatRequest]) -> None:
        """Add the requests of a step to the pass if their columns are ready."""
        planned = []
        for request in requests:
            fills = [self.filled[name] for name in request.columns if name in self.filled]
            if self.pending & set(request.columns):
                return
            if fills and not isinstance(request, _FILLABLE):
                return
            planned.append(
                _PlannedRequest(step=number, request=request, fill=fills[0] if fills else None)
            )
        self.actions.append(Gather(requests=tuple(requests)))
        self.planned += planned

    def note_changes(
        self, number: int, settings: StepSettings, requests: Sequence[StatRequest]
    ) -> None:
        """Note which columns a step that is not fitted yet will change."""
        read = {name for request in requests for name in request.columns}
        names = set(_column_names(settings)) | (read - {self.columns.label})
        if isinstance(settings, Impute) and settings.by is None and self.all_numeric(names):
            for name in sorted(names - self.pending - set(self.filled)):
                self.filled[name] = _Fill(step=number, column=name)
            return
        self.pending |= names
        if not settings.IN_PLACE:
            self.columns = replace(self.columns, open=True)

    def all_numeric(self, names: set[str]) -> bool:
        columns = [self.columns.get(name) for name in names]
        return all(column is not None and column.kind in ("number", "bool") for column in columns)

    def part(self, number: int, part: Fitted) -> bool:
        """Add a part without statistics to the pass; return False where the look ahead ends."""
        if isinstance(part, Marker | SeriesPart):
            return False
        reads = set(part.reads)
        waiting = self.pending | set(self.filled)
        if isinstance(part, RowFilter):
            if waiting & reads:
                return False
            self.actions.append(Apply(step=number, part=part))
            return True
        keeps_nulls = isinstance(part, _KEEPS_NULLS) and not self.pending & reads
        if keeps_nulls or not waiting & reads:
            self.actions.append(Apply(step=number, part=part))
            if isinstance(part, _KEEPS_NULLS):
                for name in reads & set(self.filled):
                    fill = self.filled[name]
                    self.filled[name] = replace(fill, through=(*fill.through, part))
        else:
            self.pending |= written_columns(part)
        self.columns = part.after(self.columns)
        return True


def _column_names(settings: StepSettings) -> Iterator[str]:
    for key in ("columns", "column"):
        value = getattr(settings, key, ())
        yield from (value,) if isinstance(value, str) else value
