"""The search space: a candidate's fixed values and the spans that are searched."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuyard.document import Keys, Plain, Settings, decode, read_json
from gpuyard.document.shape import Shape, fields_of, shape_of
from gpuyard.errors import InputError, Problem, nearest, one_of
from gpuyard.learn.spec import NAMES, TrainSpec

__all__ = ["Candidate", "Span", "Value", "grid_of", "read_candidates", "train_spec", "trained_values"]

Value: typing.TypeAlias = "str | int | float | bool"
SPAN_KEYS = ("from", "to", "of", "scale", "step")
MOST_GRID = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One searched parameter: numbers from `low` to `high`, or one of `options`."""

    name: str
    options: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = False
    step: float | None = None

    @property
    def middle(self) -> Value:
        """The first to be tried."""
        if self.options:
            return self.options[0]
        centre = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
        if self.step:
            centre = self.low + self.step * round((centre - self.low) / self.step)
        return round(centre) if self.whole else centre

    def holds(self, value: object) -> bool:
        """True of a value that the search could come to."""
        if self.options:
            return value in self.options
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        return not self.step or math.isclose((value - self.low) / self.step % 1.0, 0.0, abs_tol=1e-9)

    @property
    def ends(self) -> tuple[Value, ...]:
        """Values that stand for all: if they are allowed, every one is."""
        if self.options:
            return self.options
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A trainer with what is fixed (as JSON) and what is searched."""

    trainer: str
    fixed: Settings
    spans: tuple[Span, ...]
    shared: Settings  # seed, validation


def read_candidates(given: Sequence[Settings], where: str = "select.candidates") -> tuple[Candidate, ...]:
    """The candidates of a section; InputError with every problem."""
    found: list[Candidate] = []
    problems: list[Problem] = []
    for index, settings in enumerate(given):
        try:
            found.append(_candidate(settings, f"{where}[{index}]"))
        except InputError as error:
            problems += error.problems
    if not given:
        problems.append(Problem(where=where, what="there are none", fix="write `- trees: {leaves: {from: 7, to: 63}}`"))
    if problems:
        raise InputError(problems)
    return tuple(found)


def _candidate(settings: Settings, where: str) -> Candidate:
    """One candidate."""
    tree = settings.plain()
    assert isinstance(tree, dict)
    shared_names = {"seed", "validation"}
    names = [name for name in tree if name not in shared_names]
    if len(names) != 1 or names[0] not in NAMES:
        wrong = next((name for name in names if name not in NAMES), None)
        meant = nearest(wrong, NAMES) if wrong else None
        what = f'no trainer named "{wrong}"' if wrong else f"{len(names)} trainers instead of one"
        raise InputError.one(where, what, f'did you mean "{meant}"?' if meant else f"use {one_of(NAMES)}")
    trainer = names[0]
    parameters = tree[trainer] or {}
    if not isinstance(parameters, dict):
        raise InputError.one(f"{where}.{trainer}", "expected keys and values", "write {leaves: {from: 7, to: 63}}")
    shapes = {field.key(Keys.BARE): field.shape for field in fields_of(_record(trainer))}
    spans, fixed, problems = [], {}, []
    for name, value in parameters.items():
        place = f"{where}.{trainer}.{name}"
        if name not in shapes:
            meant = nearest(name, shapes)
            fix = f'did you mean "{meant}"?' if meant else f"use {one_of(list(shapes), 30)}"
            problems.append(Problem(where=place, what=f'unknown key "{name}"', fix=fix))
        elif isinstance(value, dict) and set(value) & set(SPAN_KEYS):
            try:
                spans.append(_span(name, value, shapes[name], place))
            except InputError as error:
                problems += error.problems
        else:
            fixed[name] = value
    if problems:
        raise InputError(problems)
    shared = Settings.of({name: value for name, value in tree.items() if name in shared_names})
    candidate = Candidate(trainer=trainer, fixed=Settings.of(fixed), spans=tuple(spans), shared=shared)
    _try_ends(candidate, where)
    return candidate


def _record(trainer: str) -> type:
    """The record of a trainer's settings."""
    shape = shape_of(typing.get_type_hints(TrainSpec, include_extras=True)[trainer])
    record: type = shape.base
    return record


def _span(name: str, value: Mapping[str, Plain], shape: Shape, where: str) -> Span:
    """One searched parameter."""
    problems = [
        Problem(where=f"{where}.{key}", what=f'unknown key "{key}"', fix=f"use {one_of(SPAN_KEYS)}")
        for key in value
        if key not in SPAN_KEYS
    ]
    options = value.get("of")
    if problems:
        raise InputError(problems)
    if options is not None:
        if (
            not isinstance(options, list)
            or not options
            or not all(isinstance(item, str | int | float | bool) for item in options)
        ):
            raise InputError.one(f"{where}.of", "expected a list of values", "write {of: [32, 64, 128]}")
        if len(value) > 1:
            raise InputError.one(where, "`of` stands alone", "write {of: […]} or {from: …, to: …}")
        return Span(name=name, options=tuple(item for item in options if isinstance(item, str | int | float | bool)))
    low, high, step, scale = (value.get(key) for key in ("from", "to", "step", "scale"))
    numbers = [item for item in (low, high) if isinstance(item, int | float) and not isinstance(item, bool)]
    if len(numbers) != 2:
        raise InputError.one(where, "a span has two ends, both numbers", "write {from: 7, to: 63}, or {of: […]}")
    if shape.base not in (int, float):
        raise InputError.one(where, "is not a number and has no span", "write {of: […]}")
    if numbers[0] >= numbers[1]:
        raise InputError.one(where, f"{numbers[0]:g} is not below {numbers[1]:g}", "write the smaller one under from")
    if scale not in (None, "log", "linear") or (scale == "log" and numbers[0] <= 0):
        raise InputError.one(
            f"{where}.scale", f"cannot be {scale} from {numbers[0]:g}", "use linear, or log from above 0"
        )
    if step is not None and (isinstance(step, bool | str | list | dict) or step <= 0 or scale == "log"):
        raise InputError.one(
            f"{where}.step", "is a number above 0, without a log scale", "write {from: 10, to: 50, step: 10}"
        )
    whole = shape.base is int
    if whole and any(number != int(number) for number in numbers):
        raise InputError.one(where, "takes whole numbers", "round the ends")
    return Span(
        name=name, low=float(numbers[0]), high=float(numbers[1]), whole=whole, log=scale == "log",
        step=None if step is None else float(step),
    )  # fmt: skip


def _try_ends(candidate: Candidate, where: str) -> None:
    """InputError where an end or an option of a span is not allowed for its key."""
    base = {span.name: span.middle for span in candidate.spans}
    train_spec(candidate, base, where)
    problems: list[Problem] = []
    for span in candidate.spans:
        for value in span.ends:
            try:
                train_spec(candidate, base | {span.name: value}, where)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(dict.fromkeys(problems))


def train_spec(
    candidate: Candidate, values: Mapping[str, Value], where: str = "select", seed: int | None = None
) -> TrainSpec:
    """What to train for these values of the spans."""
    fixed, shared = candidate.fixed.plain(), candidate.shared.plain()
    assert isinstance(fixed, dict)
    assert isinstance(shared, dict)
    document = read_json(json.dumps({**shared, candidate.trainer: {**fixed, **values}}), where)
    spec = decode(document.root, TrainSpec, Keys.BARE)
    return spec if seed is None or "seed" in shared else dataclasses.replace(spec, seed=seed)


def trained_values(candidate: Candidate, train: TrainSpec | None) -> tuple[tuple[str, Value], ...] | None:
    """The values that make the candidate the setting that is trained anyway; None if none of its do."""
    own = getattr(train, candidate.trainer, None)
    if own is None:
        return None
    names = {field.key(Keys.BARE): field.name for field in fields_of(_record(candidate.trainer))}
    values = tuple((span.name, getattr(own, names[span.name])) for span in candidate.spans)
    inside = all(span.holds(value) for span, (_, value) in zip(candidate.spans, values, strict=True))
    same = inside and getattr(train_spec(candidate, dict(values)), candidate.trainer) == own
    return values if same else None


def grid_of(candidate: Candidate) -> Iterator[dict[str, Value]]:
    """Every combination; InputError where a span has no steps, or there are too many."""
    axes: list[tuple[Value, ...]] = []
    for span in candidate.spans:
        step = span.step or (1.0 if span.whole else None)
        if span.options:
            axes.append(span.options)
        elif step is None or span.log:
            raise InputError.one(f"select: {span.name}", "a grid needs steps", "write {of: […]}, or add step: …")
        else:
            numbers = [span.low + step * index for index in range(int((span.high - span.low) / step + 1e-9) + 1)]
            axes.append(tuple(int(number) if span.whole else number for number in numbers))
    if math.prod(len(axis) for axis in axes) > MOST_GRID:
        raise InputError.one(
            "select: grid", f"more than {MOST_GRID} combinations", "search with tpe, or name fewer values"
        )
    names = [span.name for span in candidate.spans]
    for combination in itertools.product(*axes):
        yield dict(zip(names, combination, strict=True))
