"""The plan: steps fitted in as few passes as their statistics allow.

Every pass gathers all the statistics that can be had by then. A column whose nulls are about to be filled with a
number that is not known yet need not wait: its statistics are taken without the nulls, and their number times the
fill is added when it is known. So impute, clip and z-score take one pass. De-duplication reads only its keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.datasets.aggregates import Moments, MomentsNeed, Quantiles, QuantilesNeed
from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.job import Action, Apply, Assign, Gather, Mark, pruned
from gpuyard.datasets.passes import Doomed, Passes, merged
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.split import SplitRule, decided, split_needs
from gpuyard.datasets.step import Aggregate, Fitted, FittedStep, Marker, Need, Removal, StepSettings, written
from gpuyard.datasets.steps.clip import Clip, Clipped
from gpuyard.datasets.steps.impute import FillNumbers, Impute
from gpuyard.datasets.steps.power import Power
from gpuyard.datasets.steps.ranks import QuantileMap
from gpuyard.datasets.steps.scale import Affine, MinMax, Robust, ZScore
from gpuyard.errors import InputError

__all__ = ["NamedStep", "Plan", "fit_steps"]

_IN_PLACE = (Clip, Impute, MinMax, Power, QuantileMap, Robust, ZScore)  # their columns keep their names
_THROUGH = (Affine, Clipped)  # null stays null and nothing else becomes null
_FILLABLE = (MomentsNeed, QuantilesNeed)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStep:
    """A step with its name and its place in the file."""

    name: str
    where: str
    settings: StepSettings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """All steps fitted: the actions of the last pass, and the columns after it."""

    actions: tuple[Action, ...]
    columns: Columns
    widths: tuple[int, ...]  # columns after every step
    doomed: Doomed
    rule: SplitRule
    assign_at: int  # the place of the split among the actions

    @property
    def parts(self) -> tuple[tuple[int, Fitted], ...]:
        """The fitted parts with their steps, in order."""
        return tuple((action.step, action.part) for action in self.actions if isinstance(action, Apply))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fill:
    """A fill that a statistic still waits for: the step that makes it, and what the column goes through after."""

    step: int
    column: str
    through: tuple[Affine | Clipped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A statistic of a step, and the fill it waits for."""

    step: int
    need: Need
    fill: _Fill | None


def fit_steps(
    spec: DataSpec, steps: Sequence[NamedStep], columns: Columns, passes: Passes, *, form: str, floats: set[str],
    memory_bytes: float, rule: SplitRule | None = None,
) -> Plan:  # fmt: skip
    """The steps fitted on the training rows; `rule` says which those are if it is known already."""
    fitting = _Fitting(spec, steps, columns, passes, form, floats, memory_bytes, rule)
    fitting.fit()
    return fitting.plan()


class _Fitting:
    """The state of fitting: what is fitted so far, and what was found."""

    def __init__(
        self, spec: DataSpec, steps: Sequence[NamedStep], columns: Columns, passes: Passes, form: str,
        floats: set[str], memory_bytes: float, rule: SplitRule | None,
    ) -> None:  # fmt: skip
        self.spec, self.steps, self.columns, self.passes = spec, steps, columns, passes
        self.form, self.floats, self.memory_bytes, self.rule = form, floats, memory_bytes, rule
        self.actions: list[Action] = []
        self.widths: list[int] = []
        self.doomed: Doomed = {}
        self.found: dict[_Wanted, Aggregate] = {}
        self.fills: dict[tuple[int, str], float] = {}
        self.assign_at: int | None = None

    def fit(self) -> None:
        """Fits every step."""
        at = 0
        while at < len(self.steps):
            step = self.steps[at]
            settings = step.settings.bound(self.columns, step.where)
            needs = settings.needs(self.columns)
            if needs and not all(any(want.step == at and want.need == need for want in self.found) for need in needs):
                self.gather(at)
                continue
            self.settle(at, settings.fitted({need: self.statistic(at, need) for need in needs}, self.columns))
            at += 1
        self.assign()

    def settle(self, at: int, parts: Sequence[Fitted]) -> None:
        """Takes the fitted parts of a step into the plan."""
        for place, part in enumerate(parts):
            key = f"{at}.{place}"
            if isinstance(part, Marker):
                self.mark(key, part)
            if isinstance(part, FillNumbers):
                self.fills |= {(at, name): value for name, value in zip(part.columns, part.values, strict=True)}
            before = self.columns
            if isinstance(part, FittedStep):
                self.columns = part.after(before)
            gone = tuple(name for name in before.names if self.columns.get(name) is None)
            self.actions.append(Apply(step=at, part=part, key=key, drops=gone))
        self.widths.append(len(self.columns.items))

    def mark(self, key: str, part: Marker) -> None:
        """A pass over the keys alone: the rows that a marker dooms in every partition."""
        actions = (*self.actions, Mark(part=part))
        results = self.passes.run(pruned("keys", self.form, actions, self.floats), self.doomed)
        self.doomed[key] = part.doomed([result.marks for result in results], self.memory_bytes)

    def assign(self) -> None:
        """Shares out the rows, once, before the first step that learns from them."""
        if self.assign_at is not None:
            return
        if self.rule is None:
            found: tuple[Aggregate, ...] = ()
            needs = split_needs(self.spec.split, self.spec.label, self.passes.rows)
            if needs:
                actions = (*self.actions, Gather(needs=needs))
                found = merged(self.passes.run(pruned("split", self.form, actions, self.floats), self.doomed))
            self.rule = decided(self.spec.split, self.spec.label, found)
        self.assign_at = len(self.actions)
        folds = any(step.name == "target" for step in self.steps)
        self.actions.append(Assign(rule=self.rule, folds=folds))

    def statistic(self, at: int, need: Need) -> Aggregate:
        """A statistic of a step, with the nulls that were filled meanwhile."""
        want = next(want for want in self.found if want.step == at and want.need == need)
        found = self.found[want]
        if want.fill is None:
            return found
        assert isinstance(found, Moments | Quantiles)
        value = self.fills[want.fill.step, want.fill.column]
        for part in want.fill.through:
            value = _image(part, want.fill.column, value)
        return found.filled(value, found.nulls)

    def gather(self, at: int) -> None:
        """One pass for all the statistics that can be had from here."""
        self.assign()
        scan = _Scan(self, at)
        actions, wanted = scan.run()
        results = self.passes.run(pruned("statistics", self.form, actions, self.floats), self.doomed)
        self.found |= dict(zip(wanted, merged(results), strict=True))

    def plan(self) -> Plan:
        """What was fitted."""
        assert self.rule is not None
        assert self.assign_at is not None
        return Plan(
            actions=tuple(self.actions), columns=self.columns, widths=tuple(self.widths), doomed=self.doomed,
            rule=self.rule, assign_at=self.assign_at,
        )  # fmt: skip


def _image(part: Affine | Clipped, column: str, value: float) -> float:
    """What a part makes of one value of a column."""
    slots = Slots()
    operation = part.compiled(slots)
    batch = Batch(np.full((1, slots.count), value), {})
    operation(batch)
    return float(batch.numbers[0, slots.number(column)])


class _Scan:
    """Looks ahead from a step: which statistics can be gathered in one pass."""

    def __init__(self, fitting: _Fitting, at: int) -> None:
        self.fitting, self.at = fitting, at
        self.columns = fitting.columns
        self.actions = list(fitting.actions)
        self.wanted: list[_Wanted] = []
        self.pending: set[str] = set()  # columns that steps not yet fitted will change
        self.filled: dict[str, _Fill] = {}

    def run(self) -> tuple[tuple[Action, ...], list[_Wanted]]:
        """The pass, and what it will find, in order."""
        for number in range(self.at, len(self.fitting.steps)):
            if not self.step(number):
                break
        return tuple(self.actions), self.wanted

    def step(self, number: int) -> bool:
        """Looks at one step; False where the look ahead ends."""
        step = self.fitting.steps[number]
        if self.columns.open and any("*" in name or "?" in name for name in _names(step.settings)):
            return False
        try:
            settings = step.settings.bound(self.columns, step.where)
        except InputError:
            if number == self.at:
                raise
            return False  # told again, with all columns known, when its turn comes
        needs = settings.needs(self.columns)
        if not needs:
            return all(self.part(number, part) for part in settings.fitted({}, self.columns))
        self.want(number, needs)
        self.change(number, settings, needs)
        return True

    def want(self, number: int, needs: Sequence[Need]) -> None:
        """Takes a step's statistics into the pass if their columns are ready."""
        fills = {}
        for need in needs:
            waiting = [self.filled[name] for name in need.columns if name in self.filled]
            if self.pending & set(need.columns) or (waiting and not isinstance(need, _FILLABLE)):
                return
            fills[need] = waiting[0] if waiting else None
        new = [_Wanted(step=number, need=need, fill=fills[need]) for need in needs]
        self.actions.append(Gather(needs=tuple(want.need for want in new)))
        self.wanted += new

    def change(self, number: int, settings: StepSettings, needs: Sequence[Need]) -> None:
        """Notes which columns a step that is not fitted yet will change."""
        names = set(_names(settings)) | ({name for need in needs for name in need.columns} - {self.columns.label})
        if isinstance(settings, Impute) and settings.by is None and self.numeric(names):
            for name in sorted(names - self.pending - set(self.filled)):
                self.filled[name] = _Fill(step=number, column=name)
            return
        self.pending |= names
        if not isinstance(settings, _IN_PLACE):
            self.columns = replace(self.columns, open=True)

    def numeric(self, names: set[str]) -> bool:
        """Whether all of them are numbers."""
        found = [self.columns.get(name) for name in names]
        return all(column is not None and column.kind in ("number", "bool") for column in found)

    def part(self, number: int, part: Fitted) -> bool:
        """Takes a part that learns nothing into the pass; False where the look ahead ends."""
        if isinstance(part, Marker):
            return False
        waits = self.pending | set(self.filled)
        if isinstance(part, Removal):
            if waits & set(part.reads):
                return False
            self.actions.append(Apply(step=number, part=part))
            return True
        after = part.after(self.columns)
        writes = written(part)
        if not waits & set(part.reads) or (isinstance(part, _THROUGH) and not self.pending & set(part.reads)):
            self.actions.append(Apply(step=number, part=part))
            if isinstance(part, _THROUGH):
                for name in set(part.reads) & set(self.filled):
                    fill = self.filled[name]
                    self.filled[name] = replace(fill, through=(*fill.through, part))
        else:
            self.pending |= writes
        self.columns = after
        return True


def _names(settings: StepSettings) -> Iterator[str]:
    """The columns that a step's settings name."""
    for key in ("columns", "column"):
        value = getattr(settings, key, ())
        yield from (value,) if isinstance(value, str) else value
