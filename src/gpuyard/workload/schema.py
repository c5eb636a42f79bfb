"""JSON Schema of workload files, for editors."""

from __future__ import annotations

from gpuyard.document.field_types import Keys
from gpuyard.document.frozen_json import Plain
from gpuyard.document.schema import json_schema
from gpuyard.workload.key_rules import ALL_TASKS, Key, keys_of
from gpuyard.workload.workload import WorkloadFile


def workload_schema() -> dict[str, Plain]:
    """Return the JSON Schema of workload files, with the rules of each task."""
    schema = json_schema(WorkloadFile, Keys.BARE, "gpuyard workload")
    rules: list[Plain] = [_rule(task) for task in ALL_TASKS]
    return {**schema, "allOf": rules}


def _rule(task: str) -> dict[str, Plain]:
    keys = keys_of(WorkloadFile)
    needed: list[Plain] = [key.word for key in keys if task in key.tasks.needed]
    limits: dict[str, Plain] = {key.word: _limit(key, task) for key in keys}
    return {
        "if": {"properties": {"task": {"const": task}}, "required": ["task"]},
        "then": {
            "required": needed,
            "properties": {word: limit for word, limit in limits.items() if limit},
        },
    }


def _limit(key: Key, task: str) -> dict[str, Plain]:
    """Only null is allowed where the task does not use the key; in a section, also the default."""
    if task not in key.tasks.used:
        return {"type": "null"}
    if not key.type.is_record:
        return {}
    unused: dict[str, Plain] = {
        inner.word: {"enum": [None, *_defaults(inner)]}
        for inner in keys_of(key.type.base)
        if task not in inner.tasks.used
    }
    return {"properties": unused} if unused else {}


def _defaults(key: Key) -> list[Plain]:
    return [key.default] if isinstance(key.default, str | int | float) else []
