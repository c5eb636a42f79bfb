"""The planner's form: its fields, and their values in the text of a workload file."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from gpuyard.catalog.platforms import TaskName
from gpuyard.document.frozen_json import Plain, plain_tree
from gpuyard.document.read import read_yaml
from gpuyard.errors import InputError
from gpuyard.workload.starters import starter
from gpuyard.workload.where import ConsumptionName, PlatformChoice, ProviderName

TASKS: tuple[TaskName, ...] = typing.get_args(TaskName)
TRAINING: tuple[TaskName, ...] = ("pretraining", "finetuning")
MODELS: tuple[TaskName, ...] = (*TRAINING, "inference")
KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field: its label, its key in the file, and the tasks that have it."""

    name: str
    label: str
    path: KeyPath
    tasks: tuple[TaskName, ...] = TASKS
    hint: str = ""
    choices: tuple[str, ...] = ()
    suggestions: str = ""  # the catalog rows that are suggested
    is_list: bool = False  # written with commas


FIELDS: tuple[FormField, ...] = (
    FormField(name="model", label="Model", path=("model",), tasks=MODELS, suggestions="models"),
    FormField(
        name="tokens", label="Tokens", path=("data", "tokens"), tasks=("pretraining",), hint="15T"
    ),
    FormField(
        name="samples", label="Samples", path=("data", "samples"), tasks=("finetuning",), hint="50k"
    ),
    FormField(
        name="sequence", label="Sequence", path=("data", "sequence"), tasks=TRAINING, hint="8192"
    ),
    FormField(
        name="method",
        label="Method",
        path=("training", "method"),
        tasks=("finetuning",),
        choices=("full", "lora", "qlora"),
    ),
    FormField(
        name="input",
        label="Input tokens",
        path=("traffic", "input"),
        tasks=("inference",),
        hint="1000",
    ),
    FormField(
        name="output",
        label="Output tokens",
        path=("traffic", "output"),
        tasks=("inference",),
        hint="200",
    ),
    FormField(
        name="requests",
        label="Requests",
        path=("requirements", "requests"),
        tasks=("inference",),
        hint="20/s",
    ),
    FormField(
        name="ttft",
        label="TTFT",
        path=("requirements", "ttft"),
        tasks=("inference",),
        hint="500ms",
    ),
    FormField(
        name="tpot", label="TPOT", path=("requirements", "tpot"), tasks=("inference",), hint="50ms"
    ),
    FormField(
        name="deadline",
        label="Deadline",
        path=("requirements", "deadline"),
        tasks=(*TRAINING, "hpc"),
        hint="90d",
    ),
    FormField(
        name="budget",
        label="Budget",
        path=("requirements", "budget"),
        tasks=(*TRAINING, "hpc"),
        hint="$500",
    ),
    FormField(
        name="hourly",
        label="Budget per hour",
        path=("requirements", "hourly_budget"),
        tasks=("inference", "graphics"),
        hint="$100/h",
    ),
    FormField(
        name="provider",
        label="Provider",
        path=("where", "provider"),
        choices=typing.get_args(ProviderName),
    ),
    FormField(name="region", label="Region", path=("where", "region"), suggestions="regions"),
    FormField(
        name="platform",
        label="Platform",
        path=("where", "platform"),
        choices=typing.get_args(PlatformChoice),
    ),
    FormField(
        name="machines",
        label="Machines",
        path=("where", "machines"),
        hint="a3-*, a4-*",
        suggestions="machines",
        is_list=True,
    ),
    FormField(
        name="consumption",
        label="Consumption",
        path=("where", "consumption"),
        hint=", ".join(typing.get_args(ConsumptionName)[:2]),
        is_list=True,
    ),
)


def fields_of_task(task: str) -> tuple[FormField, ...]:
    """The fields of a task."""
    return tuple(field for field in FIELDS if task in field.tasks)


def form_values(text: str) -> dict[str, str]:
    """The task and the fields that a workload text has; none if it is not a mapping."""
    tree = _tree(text)
    values = {field.name: _shown(_at(tree, field.path)) for field in FIELDS}
    return {"task": _shown(tree.get("task")), **values}


def text_with_form(text: str, form: Mapping[str, str]) -> str:
    """The workload text with the fields that the form changes; another task starts a new file."""
    task = form.get("task", "")
    before = form_values(text)
    if task != before["task"] and task in TASKS:
        return starter(next(name for name in TASKS if name == task))
    for field in fields_of_task(task):
        value = form.get(field.name, "").strip()
        if value != before[field.name]:
            text = _with_value(text, field, value)
    return text


def _tree(text: str) -> dict[str, Plain]:
    try:
        tree = plain_tree(read_yaml(text, "workload").root)
    except InputError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _at(tree: Plain, path: KeyPath) -> Plain:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _shown(value: Plain) -> str:
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    return "" if value is None or isinstance(value, dict) else str(value)


def _with_value(text: str, field: FormField, value: str) -> str:
    """Change one line of the text; where that does not work, write the whole file again."""
    edited = _edited(text, field, value)
    if edited is not None and _shown(_at(_tree(edited), field.path)) == value:
        return edited
    tree = _tree(text)
    parent: Plain = tree
    for key in field.path[:-1]:
        assert isinstance(parent, dict)
        if not isinstance(parent.get(key), dict):
            parent[key] = {}
        parent = parent[key]
    assert isinstance(parent, dict)
    if value:
        parent[field.path[-1]] = [*_items(value)] if field.is_list else value
    else:
        parent.pop(field.path[-1], None)
    written: str = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
    return written


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _edited(text: str, field: FormField, value: str) -> str | None:
    """The text with one line changed, added or commented out; None for flow mappings."""
    lines, key = text.splitlines(), field.path[-1]
    start, end, indent = 0, len(lines), ""
    if len(field.path) == 2:
        indent = "  "
        head = next((n for n, line in enumerate(lines) if line.startswith(f"{field.path[0]}:")), -1)
        if head < 0:
            lines += ["", f"{field.path[0]}:"]
            head = len(lines) - 1
        elif not re.fullmatch(r"\w+:\s*(#.*)?", lines[head]):
            return None
        start = head + 1
        inside = (n for n in range(start, len(lines)) if re.match(r"\S", lines[n]))
        end = next(inside, len(lines))
    written = f"{key}: {_scalar(field, value)}"
    pattern = re.compile(rf"(\s*)(#\s*)?{key}:(?P<old>[^#]*)(?P<note>(?<=\s)#.*)?")
    matches = [(n, match) for n in range(start, end) if (match := pattern.fullmatch(lines[n]))]
    if matches:
        number, match = min(matches, key=lambda pair: pair[1][2] is not None)
        gap = match["old"][len(match["old"].rstrip()) :]
        note = gap + match["note"] if match["note"] else ""
        removed = f"# {lines[number].strip()}"
        lines[number] = indent + (f"{written}{note}" if value else removed)
    elif value:
        lines.insert(start, f"{indent}{written}")
    return "\n".join(lines) + "\n"


def _scalar(field: FormField, value: str) -> str:
    """The value as YAML on one line."""
    plain: object = _items(value) if field.is_list else value
    if isinstance(plain, str) and re.fullmatch(r"[\w$./-]+", plain):
        return plain
    line: str = yaml.safe_dump(plain, default_flow_style=True, width=10_000, allow_unicode=True)
    return line.removesuffix("\n").removesuffix("\n...")
