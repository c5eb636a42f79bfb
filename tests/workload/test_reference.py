"""docs/reference/workload.md and pipeline.md say what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from gpuyard.app.pipeline import RunSpec, read_stages
from gpuyard.catalog import Transformer
from gpuyard.datasets import DataSpec
from gpuyard.datasets.steps import Step
from gpuyard.document import Settings
from gpuyard.document.shape import fields_of
from gpuyard.errors import InputError
from gpuyard.learn import TrainSpec
from gpuyard.learn.evaluate import EvaluateSpec
from gpuyard.learn.select import SelectSpec
from gpuyard.learn.spec import Variable
from gpuyard.serving import DeploySpec
from gpuyard.workload import parse_workload
from gpuyard.workload.keys import keys_of

from .rows import CATALOG

ROOT = Path(__file__).parent.parent.parent
RECORDS = (DataSpec, TrainSpec, EvaluateSpec, SelectSpec, DeploySpec, RunSpec)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("workload_reference", ROOT / "tools" / "workload_reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(tool: ModuleType) -> None:
    for path in (tool.PAGE, tool.PIPELINE_PAGE):
        page = path.read_text(encoding="utf-8")
        assert tool.render(page) == page, "run python tools/workload_reference.py"


def test_the_pages_have_every_key(tool: ModuleType) -> None:
    for path, tables in ((tool.PAGE, tool.TABLES), (tool.PIPELINE_PAGE, tool.PIPELINE_TABLES)):
        page = path.read_text(encoding="utf-8")
        for name, record in tables.items():
            assert f"<!-- table: {name} -->" in page
            for key in keys_of(record):
                assert f"| `{key.word}` |" in page


def test_every_section_and_step_of_a_pipeline_has_a_table(tool: ModuleType) -> None:
    """A record that a stage's file may hold, however deep, is in the list of tables; steps are in a table of theirs."""
    page = tool.PIPELINE_PAGE.read_text(encoding="utf-8")
    waiting, seen = [*RECORDS], set(RECORDS)
    while waiting:
        for field in fields_of(waiting.pop()):
            for shape in (field.shape, *field.shape.options):
                if shape.is_record and shape.base not in {Settings, Transformer, Variable, Step, *seen}:
                    seen.add(shape.base)
                    waiting.append(shape.base)
    assert seen == set(tool.PIPELINE_TABLES.values())
    for field in fields_of(Step):
        assert f"| `{field.name}` |" in page


def test_the_snippets_of_the_pipeline_are_read(tool: ModuleType, tmp_path: Path) -> None:
    for snippet in re.findall(r"```yaml\n(.*?)```", tool.PIPELINE_PAGE.read_text(encoding="utf-8"), re.DOTALL):
        file = tmp_path / "workload.yaml"
        file.write_text(snippet, encoding="utf-8")
        assert read_stages(file).names == ("data", "train", "evaluate", "register", "deploy")


def test_the_snippets_decode(tool: ModuleType) -> None:
    """A snippet is a part of a file: it may lack what its task needs, but every line of it must be known."""
    snippets = re.findall(r"```yaml\n(.*?)```", tool.PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(snippets) >= 10
    for snippet in snippets:
        text = snippet if "task:" in snippet else f"task: inference\n{snippet}"
        try:
            parse_workload(text, "w.yaml", CATALOG)
        except InputError as error:
            for problem in error.problems:
                assert not re.search("unknown key|not known here|expected|no unit|not belong", problem.what), problem
