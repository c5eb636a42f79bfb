"""Generate the tables of docs/reference/workload.md and pipeline.md from the dataclasses.

python tools/workload_reference.py           write the pages
python tools/workload_reference.py --check   report whether the pages are up to date
"""

from __future__ import annotations

import re
import sys
import typing
from pathlib import Path

from gpuyard.app.bus_bandwidth import BusProbe
from gpuyard.app.stages import RunSpec
from gpuyard.catalog.models import LatentAttention, MixtureOfExperts, Transformer
from gpuyard.datasets.spec import DataSpec, OutputSpec, ReadSpec, SplitSpec
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.document.field_types import FieldType, Keys, fields_of
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.tracking.spec import TrackSpec
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.select.spec import SelectLimits, SelectSpec
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainers.command.command_settings import CommandSpec
from gpuyard.learn.trainers.hugging_face.hugging_face_settings import PeftSpec, TransformersSpec
from gpuyard.learn.trainers.lora.lora_settings import DpoSpec, LoraSpec
from gpuyard.learn.trainers.network_settings import MlpSpec, TransformerSpec
from gpuyard.learn.trainers.sklearn_models.sklearn_settings import SklearnSpec
from gpuyard.learn.trainers.torch_images.image_settings import TorchCnnSpec, TorchVitSpec
from gpuyard.learn.trainers.torch_nets.torch_settings import TorchMlpSpec, TorchTransformerSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.serving.spec import (
    AccessSpec,
    BatchSpec,
    CanaryGuardSpec,
    CanarySpec,
    DeploySpec,
    InferenceEngineSpec,
    LimitSpec,
    RequestLogSpec,
    ShadowSpec,
)
from gpuyard.units import show
from gpuyard.workload.checks.where import CLOUD_PLATFORMS, ENGINES, ONPREM_PLATFORMS
from gpuyard.workload.key_rules import ALL_TASKS, Key, keys_of
from gpuyard.workload.requirements import Requirements
from gpuyard.workload.sections import Data, Graphics, Hpc, Pinned, Traffic, Training
from gpuyard.workload.where import InventoryItem, Where
from gpuyard.workload.workload import Pipeline, WorkloadFile

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
PAGE, PIPELINE_PAGE = FOLDER / "workload.md", FOLDER / "pipeline.md"
# Marker of a table in a page (`<!-- table: where.inventory -->`) -> the record of its keys.
# A marker names a section of the file, so it does not change when a class is renamed.
TABLES: dict[str, type] = {
    "workload": WorkloadFile,
    "model": Transformer,
    "model.moe": MixtureOfExperts,
    "model.mla": LatentAttention,
    "data": Data,
    "training": Training,
    "traffic": Traffic,
    "graphics": Graphics,
    "hpc": Hpc,
    "requirements": Requirements,
    "pinned": Pinned,
    "where": Where,
    "where.inventory": InventoryItem,
    "pipeline": Pipeline,
}
PIPELINE_TABLES: dict[str, type] = {
    "pipeline.data": DataSpec,
    "pipeline.data.read": ReadSpec,
    "pipeline.data.split": SplitSpec,
    "pipeline.data.output": OutputSpec,
    "pipeline.train": TrainSpec,
    "pipeline.train.trees": TreesSpec,
    "pipeline.train.sklearn": SklearnSpec,
    "pipeline.train.jax_mlp": MlpSpec,
    "pipeline.train.torch_mlp": TorchMlpSpec,
    "pipeline.train.jax_transformer": TransformerSpec,
    "pipeline.train.torch_transformer": TorchTransformerSpec,
    "pipeline.train.torch_cnn": TorchCnnSpec,
    "pipeline.train.torch_vit": TorchVitSpec,
    "pipeline.train.lora": LoraSpec,
    "pipeline.train.lora.dpo": DpoSpec,
    "pipeline.train.transformers": TransformersSpec,
    "pipeline.train.transformers.peft": PeftSpec,
    "pipeline.train.command": CommandSpec,
    "pipeline.evaluate": EvaluateSpec,
    "pipeline.select": SelectSpec,
    "pipeline.select.limits": SelectLimits,
    "pipeline.deploy": DeploySpec,
    "pipeline.deploy.batch": BatchSpec,
    "pipeline.deploy.limits": LimitSpec,
    "pipeline.deploy.access": AccessSpec,
    "pipeline.deploy.request_log": RequestLogSpec,
    "pipeline.deploy.canary": CanarySpec,
    "pipeline.deploy.shadow": ShadowSpec,
    "pipeline.deploy.engine": InferenceEngineSpec,
    "pipeline.deploy.canary.guard": CanaryGuardSpec,
    "pipeline.run": RunSpec,
    "pipeline.run.engine": EngineSpec,
    "pipeline.run.probe": BusProbe,
    "pipeline.track": TrackSpec,
}
# A record that extends another one; its table lists the additional keys only.
EXTENDS: dict[type, type] = {TorchMlpSpec: MlpSpec, TorchTransformerSpec: TransformerSpec}
_MARKED = re.compile(r"(<!-- table: (?P<name>[\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PAIR = 2
_WORDS = {str: "text", int: "integer", float: "number", bool: "`true` or `false`"}


def table(record: type) -> str:
    """Return the keys of a section as a Markdown table; the tasks only where they differ."""
    known = (
        {(key.word, key.type, key.default) for key in keys_of(EXTENDS[record])}
        if record in EXTENDS
        else set()
    )
    keys = [key for key in keys_of(record) if (key.word, key.type, key.default) not in known]
    by_task = any(key.tasks.used != ALL_TASKS for key in keys)
    head = ["key", "write", "default", *(["tasks"] if by_task else []), "meaning"]
    rows = [head, ["---"] * len(head)]
    for key in keys:
        meaning = key.type.doc or ", ".join(inner.doc for inner in key.type.options if inner.doc)
        if not meaning and record in PIPELINE_TABLES.values() and key.type.is_record:
            meaning = _summary(key.type.base)
        cells = [
            f"`{key.word}`",
            _written(key.type),
            _default(key),
            *([_tasks(key)] if by_task else []),
            meaning,
        ]
        rows.append([cell.replace("|", "\\|") for cell in cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def platforms() -> str:
    """Return the table of platforms, their providers and their engines."""
    rows = [["platform", "provider", "engines"], ["---"] * 3]
    for platform, engines in ENGINES.items():
        owners = [
            name
            for name, own in (("google", CLOUD_PLATFORMS), ("onprem", ONPREM_PLATFORMS))
            if platform in own
        ]
        rows.append(
            [
                f"`{platform}`",
                ", ".join(owners),
                ", ".join(f"`{engine}`" for engine in engines) or "none",
            ]
        )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def steps() -> str:
    """Return the table of data steps with their keys; required keys are bold."""
    rows = [["step", "keys (default)", "meaning"], ["---"] * 3]
    for field in fields_of(StepSpec):
        record = field.type.base
        words = []
        for key in keys_of(record):
            default = _default(key)
            words.append(
                f"**`{key.word}`**"
                if key.required
                else f"`{key.word}`" + (f" ({default})" if default else "")
            )
        rows.append([f"`{field.key(Keys.BARE)}`", ", ".join(words) or "none", _summary(record)])
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows
    )


def _summary(record: type) -> str:
    text = (record.__doc__ or "").strip().splitlines()[0].rstrip(".")
    return text[0].lower() + text[1:]


def _written(field_type: FieldType) -> str:
    if field_type.dimension:
        examples = field_type.dimension.examples.replace(" or ", ", ").split(", ")
        return f"{field_type.dimension.name}: {', '.join(f'`{example}`' for example in examples)}"
    if field_type.base is typing.Literal:
        return ", ".join(f"`{word}`" for word in field_type.literals)
    if field_type.base is typing.Union:
        return " or ".join(_written(option) for option in field_type.options)
    if field_type.base is tuple:
        item = field_type.options[0]
        if item.base is FrozenJson or (item.is_record and len(fields_of(item.base)) > PAIR):
            return "list of sections"
        if item.is_record:
            return f"`{' : '.join(field.name for field in fields_of(item.base))}` pairs".replace(
                " : ", ": "
            )
        return f"list of {_written(item)}"
    if field_type.base is FrozenJson:
        return "any keys"
    return "section" if field_type.is_record else _WORDS[field_type.base]


def _default(key: Key) -> str:
    if key.required:
        return "required"
    if key.default is None or key.default in ((), "") or key.type.is_record:
        return ""
    if key.type.dimension is not None and isinstance(key.default, int | float):
        return f"`{show(key.default, key.type.dimension)}`"
    if isinstance(key.default, tuple) and isinstance(key.default[0], FrozenJson):
        return f"{len(key.default)} candidates"
    if isinstance(key.default, tuple):
        return f"`[{', '.join(_item(str(item)) for item in key.default)}]`"
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return f"`{key.default:g}`" if isinstance(key.default, int | float) else f"`{key.default}`"


def _item(word: str) -> str:
    return word if word.isidentifier() else f'"{word}"'


def _tasks(key: Key) -> str:
    if key.tasks.used == ALL_TASKS:
        return "all"
    return ", ".join(f"**{task}**" if task in key.tasks.needed else task for task in key.tasks.used)


def render(page: str) -> str:
    """Return the page with up-to-date tables."""
    special = {"platforms": platforms, "steps": steps}

    def fresh(match: re.Match[str]) -> str:
        name = match["name"]
        text = special[name]() if name in special else table((TABLES | PIPELINE_TABLES)[name])
        return f"{match[1]}\n{text}\n{match[3]}"

    return _MARKED.sub(fresh, page)


def main(arguments: list[str]) -> int:
    """Write or check the pages."""
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
