"""The search space: a candidate's fixed settings and the ranges that are searched."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuyard.document.decode import decode
from gpuyard.document.field_types import FieldType, Keys, field_type_of, fields_of
from gpuyard.document.frozen_json import FrozenJson, Plain
from gpuyard.document.read import read_json
from gpuyard.errors import InputError, Problem, choices_text, closest_match
from gpuyard.learn.spec import TRAINER_NAMES, TrainSpec

Value: typing.TypeAlias = "str | int | float | bool"
RANGE_KEYS = ("from", "to", "of", "scale", "step")
MAX_GRID = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRange:
    """One searched parameter: numbers from `low` to `high`, or one of `options`."""

    name: str
    options: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0
    integer: bool = False
    log: bool = False
    step: float | None = None

    @property
    def middle(self) -> Value:
        """The value that is tried first."""
        if self.options:
            return self.options[0]
        centre = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
        if self.step:
            centre = self.low + self.step * round((centre - self.low) / self.step)
        return round(centre) if self.integer else centre

    def holds(self, value: object) -> bool:
        """Return whether the search could choose this value."""
        if self.options:
            return value in self.options
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not self.low <= value <= self.high
        ):
            return False
        return not self.step or math.isclose(
            (value - self.low) / self.step % 1.0, 0.0, abs_tol=1e-9
        )

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values to validate: if these are allowed, all are."""
        if self.options:
            return self.options
        return (int(self.low), int(self.high)) if self.integer else (self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerCandidate:
    """A trainer with its fixed settings (as JSON) and searched ranges."""

    trainer: str
    fixed: FrozenJson
    spans: tuple[SearchRange, ...]
    shared: FrozenJson  # seed, validation


def read_candidates(
    given: Sequence[FrozenJson], where: str = "select.candidates"
) -> tuple[TrainerCandidate, ...]:
    """Read the candidates of a section; raise InputError with every problem."""
    candidates: list[TrainerCandidate] = []
    problems: list[Problem] = []
    for index, settings in enumerate(given):
        try:
            candidates.append(_candidate(settings, f"{where}[{index}]"))
        except InputError as error:
            problems += error.problems
    if not given:
        problems.append(
            Problem(
                where=where,
                what="there are no candidates",
                fix="write `- trees: {leaves: {from: 7, to: 63}}`",
            )
        )
    if problems:
        raise InputError(problems)
    return tuple(candidates)


def _candidate(settings: FrozenJson, where: str) -> TrainerCandidate:
    tree = settings.plain()
    assert isinstance(tree, dict)
    shared_names = {"seed", "validation"}
    names = [name for name in tree if name not in shared_names]
    if len(names) != 1 or names[0] not in TRAINER_NAMES:
        wrong = next((name for name in names if name not in TRAINER_NAMES), None)
        meant = closest_match(wrong, TRAINER_NAMES) if wrong else None
        what = f'no trainer named "{wrong}"' if wrong else f"{len(names)} trainers, expected one"
        raise InputError.one(
            where,
            what,
            f'did you mean "{meant}"?' if meant else f"use {choices_text(TRAINER_NAMES)}",
        )
    trainer = names[0]
    parameters = tree[trainer] or {}
    if not isinstance(parameters, dict):
        raise InputError.one(
            f"{where}.{trainer}", "expected keys and values", "write {leaves: {from: 7, to: 63}}"
        )
    shapes = {field.key(Keys.BARE): field.type for field in fields_of(_record(trainer))}
    spans, fixed, problems = [], {}, []
    for name, value in parameters.items():
        key_path = f"{where}.{trainer}.{name}"
        if name not in shapes:
            meant = closest_match(name, shapes)
            fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(list(shapes), 30)}"
            problems.append(Problem(where=key_path, what=f'unknown key "{name}"', fix=fix))
        elif isinstance(value, dict) and set(value) & set(RANGE_KEYS):
            try:
                spans.append(_read_range(name, value, shapes[name], key_path))
            except InputError as error:
                problems += error.problems
        else:
            fixed[name] = value
    if problems:
        raise InputError(problems)
    shared = FrozenJson.of({name: value for name, value in tree.items() if name in shared_names})
    candidate = TrainerCandidate(
        trainer=trainer, fixed=FrozenJson.of(fixed), spans=tuple(spans), shared=shared
    )
    _check_ends(candidate, where)
    return candidate


def _record(trainer: str) -> type:
    shape = field_type_of(typing.get_type_hints(TrainSpec, include_extras=True)[trainer])
    record: type = shape.base
    return record


def _read_range(name: str, value: Mapping[str, Plain], shape: FieldType, where: str) -> SearchRange:
    problems = [
        Problem(
            where=f"{where}.{key}",
            what=f'unknown key "{key}"',
            fix=f"use {choices_text(RANGE_KEYS)}",
        )
        for key in value
        if key not in RANGE_KEYS
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
            raise InputError.one(
                f"{where}.of", "expected a list of values", "write {of: [32, 64, 128]}"
            )
        if len(value) > 1:
            raise InputError.one(
                where, "`of` excludes other keys", "write {of: […]} or {from: …, to: …}"
            )
        return SearchRange(
            name=name,
            options=tuple(item for item in options if isinstance(item, str | int | float | bool)),
        )
    low, high, step, scale = (value.get(key) for key in ("from", "to", "step", "scale"))
    numbers = [
        item for item in (low, high) if isinstance(item, int | float) and not isinstance(item, bool)
    ]
    if len(numbers) != 2:
        raise InputError.one(
            where, "a range needs two numbers", "write {from: 7, to: 63}, or {of: […]}"
        )
    if shape.base not in (int, float):
        raise InputError.one(where, "is not numeric and has no range", "write {of: […]}")
    if numbers[0] >= numbers[1]:
        raise InputError.one(
            where, f"{numbers[0]:g} is not below {numbers[1]:g}", "set from to the smaller number"
        )
    if scale not in (None, "log", "linear") or (scale == "log" and numbers[0] <= 0):
        raise InputError.one(
            f"{where}.scale",
            f"cannot be {scale} from {numbers[0]:g}",
            "use linear, or log from above 0",
        )
    if step is not None and (
        isinstance(step, bool | str | list | dict) or step <= 0 or scale == "log"
    ):
        raise InputError.one(
            f"{where}.step",
            "must be a number above 0, and the scale linear",
            "write {from: 10, to: 50, step: 10}",
        )
    integer = shape.base is int
    if integer and any(number != int(number) for number in numbers):
        raise InputError.one(where, "must be integers", "round both numbers")
    return SearchRange(
        name=name,
        low=float(numbers[0]),
        high=float(numbers[1]),
        integer=integer,
        log=scale == "log",
        step=None if step is None else float(step),
    )


def _check_ends(candidate: TrainerCandidate, where: str) -> None:
    values = {span.name: span.middle for span in candidate.spans}
    train_spec(candidate, values, where)
    problems: list[Problem] = []
    for span in candidate.spans:
        for value in span.ends:
            try:
                train_spec(candidate, values | {span.name: value}, where)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(dict.fromkeys(problems))


def train_spec(
    candidate: TrainerCandidate,
    values: Mapping[str, Value],
    where: str = "select",
    seed: int | None = None,
) -> TrainSpec:
    """Return the train section for these values of the ranges."""
    fixed, shared = candidate.fixed.plain(), candidate.shared.plain()
    assert isinstance(fixed, dict)
    assert isinstance(shared, dict)
    document = read_json(json.dumps({**shared, candidate.trainer: {**fixed, **values}}), where)
    spec = decode(document.root, TrainSpec, Keys.BARE)
    return spec if seed is None or "seed" in shared else dataclasses.replace(spec, seed=seed)


def trained_values(
    candidate: TrainerCandidate, train: TrainSpec | None
) -> tuple[tuple[str, Value], ...] | None:
    """Return the values that make the candidate equal to `train`; None if there are none."""
    own = getattr(train, candidate.trainer, None)
    if own is None:
        return None
    names = {field.key(Keys.BARE): field.name for field in fields_of(_record(candidate.trainer))}
    values = tuple((span.name, getattr(own, names[span.name])) for span in candidate.spans)
    inside = all(
        span.holds(value) for span, (_, value) in zip(candidate.spans, values, strict=True)
    )
    same = inside and getattr(train_spec(candidate, dict(values)), candidate.trainer) == own
    return values if same else None


def grid_of(candidate: TrainerCandidate) -> Iterator[dict[str, Value]]:
    """Yield every combination; raise InputError if a range has no step, or there are too many."""
    axes: list[tuple[Value, ...]] = []
    for span in candidate.spans:
        step = span.step or (1.0 if span.integer else None)
        if span.options:
            axes.append(span.options)
        elif step is None or span.log:
            raise InputError.one(
                f"select: {span.name}", "a grid requires a step", "write {of: […]}, or add step: …"
            )
        else:
            numbers = [
                span.low + step * index
                for index in range(int((span.high - span.low) / step + 1e-9) + 1)
            ]
            axes.append(tuple(int(number) if span.integer else number for number in numbers))
    if math.prod(len(axis) for axis in axes) > MAX_GRID:
        raise InputError.one(
            "select: grid",
            f"more than {MAX_GRID} combinations",
            "search with tpe, or list fewer values",
        )
    names = [span.name for span in candidate.spans]
    for combination in itertools.product(*axes):
        yield dict(zip(names, combination, strict=True))
