"""Keys of a workload file: spelling, default, and the tasks that use or need them."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog.platforms import TaskName
from gpuyard.document.field_types import FieldType, Keys, fields_of

ALL_TASKS: tuple[TaskName, ...] = typing.get_args(TaskName)
TRAINING: tuple[TaskName, ...] = ("pretraining", "finetuning")
INFERENCE: tuple[TaskName, ...] = ("inference",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Annotation of a field: the tasks that use its key, and those that require it."""

    used: tuple[TaskName, ...]
    needed: tuple[TaskName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a section."""

    word: str  # as the file spells it
    attribute: str
    type: FieldType
    tasks: Tasks
    default: object  # None where there is none
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """A key of a workload with its value."""

    path: str
    key: Key
    value: object
    section: type

    @property
    def given(self) -> bool:  # a key written with its default counts as not given
        return self.value != self.key.default


@functools.cache
def keys_of(record: type) -> tuple[Key, ...]:
    """Return the keys of a section; a key without `Tasks` is used by all tasks of the section."""
    hints = typing.get_type_hints(record, include_extras=True)
    defaults = {field.name: field.default for field in dataclasses.fields(record)}
    keys: list[Key] = []
    for field in fields_of(record):
        extras = typing.get_args(hints[field.name])[1:]
        tasks = next((extra for extra in extras if isinstance(extra, Tasks)), Tasks(used=ALL_TASKS))
        default = None if field.required else defaults[field.name]
        keys.append(
            Key(
                word=field.key(Keys.BARE),
                attribute=field.name,
                type=field.type,
                tasks=tasks,
                default=default,
                required=field.required,
            )
        )
    return tuple(keys)


def entries(workload: object, section: str = "") -> Iterator[KeyValue]:
    """Yield every key of the workload's own sections with its value, a section before its keys."""
    record: type = workload.__class__
    for key in keys_of(record):
        value = getattr(workload, key.attribute)
        path = f"{section}.{key.word}" if section else key.word
        yield KeyValue(path=path, key=key, value=value, section=record)
        if (
            not section
            and dataclasses.is_dataclass(value)
            and type(value).__module__.startswith("gpuyard.workload.")
        ):
            yield from entries(value, path)
