"""The keys of a workload file: how each is written, what it defaults to, and which tasks use or need it."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog import Task
from gpuyard.document import Keys
from gpuyard.document.shape import Shape, fields_of

__all__ = ["ALL_TASKS", "INFERENCE", "TRAINING", "Entry", "Key", "Tasks", "entries", "keys_of"]

ALL_TASKS: tuple[Task, ...] = typing.get_args(Task)
TRAINING: tuple[Task, ...] = ("pretraining", "finetuning")
INFERENCE: tuple[Task, ...] = ("inference",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Written on a field: the tasks that use its key, and those that cannot do without it."""

    used: tuple[Task, ...]
    needed: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a section."""

    word: str  # as the file spells it
    attribute: str
    shape: Shape
    tasks: Tasks
    default: object  # None where there is none
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A key of one workload with its value there."""

    path: str
    key: Key
    value: object
    section: type

    @property
    def given(self) -> bool:
        """True when the value is not the one that stands in for a missing key."""
        return self.value != self.key.default


@functools.cache
def keys_of(record: type) -> tuple[Key, ...]:
    """The keys of a section; one without a `Tasks` is used by every task that uses the section."""
    hints = typing.get_type_hints(record, include_extras=True)
    defaults = {field.name: field.default for field in dataclasses.fields(record)}
    found: list[Key] = []
    for field in fields_of(record):
        extras = typing.get_args(hints[field.name])[1:]
        tasks = next((extra for extra in extras if isinstance(extra, Tasks)), Tasks(used=ALL_TASKS))
        default = None if field.required else defaults[field.name]
        found.append(
            Key(
                word=field.key(Keys.BARE),
                attribute=field.name,
                shape=field.shape,
                tasks=tasks,
                default=default,
                required=field.required,
            )
        )
    return tuple(found)


def entries(workload: object, section: str = "") -> Iterator[Entry]:
    """Every key of the workload's own sections with its value, a section before its keys."""
    record: type = workload.__class__
    for key in keys_of(record):
        value = getattr(workload, key.attribute)
        path = f"{section}.{key.word}" if section else key.word
        yield Entry(path=path, key=key, value=value, section=record)
        if not section and dataclasses.is_dataclass(value) and type(value).__module__.startswith("gpuyard.workload."):
            yield from entries(value, path)
