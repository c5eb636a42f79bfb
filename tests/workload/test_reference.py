"""The generated pages docs/reference/workload.md and pipeline.md are up to date and complete."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from gpuyard.app.stages import RunSpec, read_stages
from gpuyard.catalog.models import Transformer
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.document.field_types import fields_of
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.errors import InputError
from gpuyard.jobs.tracking.spec import TrackSpec
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.select.spec import SelectSpec
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainers.command.command_settings import EnvVarSpec
from gpuyard.serving.spec import DeploySpec
from gpuyard.workload.key_rules import keys_of
from gpuyard.workload.read import parse_workload

from .rows import CATALOG

ROOT = Path(__file__).parent.parent.parent
RECORDS = (DataSpec, TrainSpec, EvaluateSpec, SelectSpec, DeploySpec, RunSpec, TrackSpec)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "workload_reference", ROOT / "tools" / "workload_reference.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_up_to_date(tool: ModuleType) -> None:
    for path in (tool.PAGE, tool.PIPELINE_PAGE):
        page = path.read_text(encoding="utf-8")
        assert tool.render(page) == page, "run python tools/workload_reference.py"


def test_pages_list_every_key(tool: ModuleType) -> None:
    for path, tables in ((tool.PAGE, tool.TABLES), (tool.PIPELINE_PAGE, tool.PIPELINE_TABLES)):
        page = path.read_text(encoding="utf-8")
        for name, record in tables.items():
            assert f"<!-- table: {name} -->" in page
            for key in keys_of(record):
                assert f"| `{key.word}` |" in page


def test_every_pipeline_section_and_step_has_table(tool: ModuleType) -> None:
    page = tool.PIPELINE_PAGE.read_text(encoding="utf-8")
    waiting, seen = [*RECORDS], set(RECORDS)
    while waiting:
        for field in fields_of(waiting.pop()):
            for field_type in (field.type, *field.type.options):
                if field_type.is_record and field_type.base not in {
                    FrozenJson,
                    Transformer,
                    EnvVarSpec,
                    StepSpec,
                    *seen,
                }:
                    seen.add(field_type.base)
                    waiting.append(field_type.base)
    assert seen == set(tool.PIPELINE_TABLES.values())
    for field in fields_of(StepSpec):
        assert f"| `{field.name}` |" in page


def test_pipeline_snippets_are_readable(tool: ModuleType, tmp_path: Path) -> None:
    for snippet in re.findall(
        r"```yaml\n(.*?)```", tool.PIPELINE_PAGE.read_text(encoding="utf-8"), re.DOTALL
    ):
        file = tmp_path / "workload.yaml"
        file.write_text(snippet, encoding="utf-8")
        assert read_stages(file).names == ("data", "train", "evaluate", "register", "deploy")


def test_workload_snippets_decode(tool: ModuleType) -> None:
    # A snippet is a part of a file: it may lack required keys, but every line must be valid.
    snippets = re.findall(r"```yaml\n(.*?)```", tool.PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(snippets) >= 10
    for snippet in snippets:
        text = snippet if "task:" in snippet else f"task: inference\n{snippet}"
        try:
            parse_workload(text, "w.yaml", CATALOG)
        except InputError as error:
            for problem in error.problems:
                assert not re.search(
                    "unknown key|not a valid value|expected|no unit|not belong", problem.what
                ), problem
