"""Writes the tables of docs/reference/workload.md and pipeline.md from the dataclasses that read the file.

python tools/workload_reference.py           writes them
python tools/workload_reference.py --check   only says whether the pages are as the code is
"""

from __future__ import annotations

import re
import sys
import typing
from pathlib import Path

from gpuyard.app.bus import BusProbe
from gpuyard.app.pipeline import RunSpec
from gpuyard.catalog import LatentAttention, MixtureOfExperts, Transformer
from gpuyard.datasets import DataSpec
from gpuyard.datasets.spec import OutputSpec, ReadSpec, SplitSpec
from gpuyard.datasets.steps import Step
from gpuyard.document import Keys, Settings
from gpuyard.document.shape import Shape, fields_of
from gpuyard.jobs import EngineSpec
from gpuyard.learn import TrainSpec
from gpuyard.learn.evaluate import EvaluateSpec
from gpuyard.learn.select import SelectSpec
from gpuyard.learn.select.spec import Limits
from gpuyard.learn.spec import Command, Lora, Mlp, Network, TorchMlp, TorchNetwork, Trees
from gpuyard.serving.spec import BatchSpec, CanarySpec, DeploySpec, GuardSpec, LimitSpec
from gpuyard.units import show
from gpuyard.workload import Data, Graphics, Hpc, Pipeline, Requirements, Stock, Traffic, Training, Where
from gpuyard.workload.checks.where import CLOUD_PLATFORMS, ENGINES, OWN_PLATFORMS
from gpuyard.workload.keys import ALL_TASKS, Key, keys_of
from gpuyard.workload.workload import WorkloadFile

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
PAGE, PIPELINE_PAGE = FOLDER / "workload.md", FOLDER / "pipeline.md"
TABLES: dict[str, type] = {
    record.__name__: record
    for record in (
        WorkloadFile, Transformer, MixtureOfExperts, LatentAttention, Data, Training, Traffic, Graphics, Hpc,
        Requirements, Where, Stock, Pipeline,
    )
}  # fmt: skip
PIPELINE_TABLES: dict[str, type] = {
    record.__name__: record
    for record in (
        DataSpec, ReadSpec, SplitSpec, OutputSpec, TrainSpec, Trees, Mlp, TorchMlp, Network, TorchNetwork, Lora,
        Command, EvaluateSpec, SelectSpec, Limits, DeploySpec, BatchSpec, LimitSpec, CanarySpec, GuardSpec, RunSpec,
        EngineSpec, BusProbe,
    )
}  # fmt: skip
BEYOND: dict[type, type] = {TorchMlp: Mlp, TorchNetwork: Network}  # whose other keys stand in the table of these
_MARKED = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
PAIR = 2
_WORDS = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}


def table(record: type) -> str:
    """The keys of a section as a Markdown table, of one that extends another its own; tasks only where they differ."""
    known = {(key.word, key.shape, key.default) for key in keys_of(BEYOND[record])} if record in BEYOND else set()
    keys = [key for key in keys_of(record) if (key.word, key.shape, key.default) not in known]
    by_task = any(key.tasks.used != ALL_TASKS for key in keys)
    head = ["key", "write", "default", *(["tasks"] if by_task else []), "meaning"]
    rows = [head, ["---"] * len(head)]
    for key in keys:
        meaning = key.shape.doc or ", ".join(inner.doc for inner in key.shape.options if inner.doc)
        if not meaning and record in PIPELINE_TABLES.values() and key.shape.is_record:
            meaning = _said(key.shape.base)
        cells = [f"`{key.word}`", _written(key.shape), _default(key), *([_tasks(key)] if by_task else []), meaning]
        rows.append([cell.replace("|", "\\|") for cell in cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def platforms() -> str:
    """Platforms, whose they are, and the engines that start jobs on them."""
    rows = [["platform", "provider", "engines"], ["---"] * 3]
    for platform, engines in ENGINES.items():
        owners = [name for name, own in (("google", CLOUD_PLATFORMS), ("onprem", OWN_PLATFORMS)) if platform in own]
        rows.append([f"`{platform}`", ", ".join(owners), ", ".join(f"`{engine}`" for engine in engines) or "none"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def steps() -> str:
    """Every step of the data with its keys, in one table; a key that must be given in bold."""
    rows = [["step", "keys (default)", "meaning"], ["---"] * 3]
    for field in fields_of(Step):
        record = field.shape.base
        words = []
        for key in keys_of(record):
            default = _default(key)
            words.append(
                f"**`{key.word}`**" if key.required else f"`{key.word}`" + (f" ({default})" if default else "")
            )
        rows.append([f"`{field.key(Keys.BARE)}`", ", ".join(words) or "none", _said(record)])
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def _said(record: type) -> str:
    """What a record says of itself, as a meaning."""
    text = (record.__doc__ or "").strip().splitlines()[0].rstrip(".")
    return text[0].lower() + text[1:]


def _written(shape: Shape) -> str:
    """What a value looks like."""
    if shape.dimension:
        examples = shape.dimension.examples.replace(" or ", ", ").split(", ")
        return f"{shape.dimension.name}: {', '.join(f'`{example}`' for example in examples)}"
    if shape.base is typing.Literal:
        return ", ".join(f"`{word}`" for word in shape.literals)
    if shape.base is typing.Union:
        return " or ".join(_written(option) for option in shape.options)
    if shape.base is tuple:
        item = shape.options[0]
        if item.base is Settings or (item.is_record and len(fields_of(item.base)) > PAIR):
            return "list of sections"
        if item.is_record:
            return f"`{' : '.join(field.name for field in fields_of(item.base))}` pairs".replace(" : ", ": ")
        return f"list of {_written(item)}"
    if shape.base is Settings:
        return "any keys"
    return "section" if shape.is_record else _WORDS[shape.base]


def _default(key: Key) -> str:
    """What a missing key means."""
    if key.required:
        return "required"
    if key.default is None or key.default in ((), "") or key.shape.is_record:
        return ""
    if key.shape.dimension is not None and isinstance(key.default, int | float):
        return f"`{show(key.default, key.shape.dimension)}`"
    if isinstance(key.default, tuple):
        return f"`[{', '.join(_item(str(item)) for item in key.default)}]`"
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return f"`{key.default:g}`" if isinstance(key.default, int | float) else f"`{key.default}`"


def _item(word: str) -> str:
    """An item of a list as YAML has it: in quotes unless it is a plain word."""
    return word if word.isidentifier() else f'"{word}"'


def _tasks(key: Key) -> str:
    """The tasks that use the key; those that need it in bold."""
    if key.tasks.used == ALL_TASKS:
        return "all"
    return ", ".join(f"**{task}**" if task in key.tasks.needed else task for task in key.tasks.used)


def render(page: str) -> str:
    """The page with its tables as the code is now."""

    special = {"platforms": platforms, "steps": steps}

    def fresh(match: re.Match[str]) -> str:
        """One marked table."""
        name = match["name"]
        made = special[name]() if name in special else table((TABLES | PIPELINE_TABLES)[name])
        return f"{match[1]}\n{made}\n{match[3]}"

    return _MARKED.sub(fresh, page)


def main(arguments: list[str]) -> int:
    """Writes or checks the pages."""
    stale = 0
    for path in (PAGE, PIPELINE_PAGE):
        page = path.read_text(encoding="utf-8")
        fresh = render(page)
        if "--check" not in arguments:
            path.write_text(fresh, encoding="utf-8")
        elif page != fresh:
            print(f"{path.name} is stale: run python tools/{Path(__file__).name}")
            stale += 1
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
