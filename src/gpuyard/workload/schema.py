"""The JSON Schema of workload files, for editors."""

from __future__ import annotations

from gpuyard.document import Keys, Plain, json_schema
from gpuyard.workload.keys import ALL_TASKS, Key, keys_of
from gpuyard.workload.workload import WorkloadFile

__all__ = ["workload_schema"]


def workload_schema() -> dict[str, Plain]:
    """The schema of workload files, with what each task needs and does not use."""
    schema = json_schema(WorkloadFile, Keys.BARE, "gpuyard workload")
    rules: list[Plain] = [_rule(task) for task in ALL_TASKS]
    return {**schema, "allOf": rules}


def _rule(task: str) -> dict[str, Plain]:
    """What the file must and must not hold when it is of this task."""
    keys = keys_of(WorkloadFile)
    needed: list[Plain] = [key.word for key in keys if task in key.tasks.needed]
    limits: dict[str, Plain] = {key.word: _limit(key, task) for key in keys}
    return {
        "if": {"properties": {"task": {"const": task}}, "required": ["task"]},
        "then": {"required": needed, "properties": {word: limit for word, limit in limits.items() if limit}},
    }


def _limit(key: Key, task: str) -> dict[str, Plain]:
    """Nothing but null where the task does not use the key; inside a section, the same for its keys."""
    if task not in key.tasks.used:
        return {"type": "null"}
    if not key.shape.is_record:
        return {}
    unused: dict[str, Plain] = {
        inner.word: {"enum": [None, *_defaults(inner)]}
        for inner in keys_of(key.shape.base)
        if task not in inner.tasks.used
    }
    return {"properties": unused} if unused else {}


def _defaults(key: Key) -> list[Plain]:
    """The default of an unused key, which does no harm where it is written out."""
    return [key.default] if isinstance(key.default, str | int | float) else []
