"""docs/reference/workload.md says what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from gpuyard.errors import InputError
from gpuyard.workload import parse_workload
from gpuyard.workload.keys import keys_of

from .rows import CATALOG

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("workload_reference", ROOT / "tools" / "workload_reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(tool: ModuleType) -> None:
    page = tool.PAGE.read_text(encoding="utf-8")
    assert tool.render(page) == page, "run python tools/workload_reference.py"


def test_the_page_has_every_key(tool: ModuleType) -> None:
    page = tool.PAGE.read_text(encoding="utf-8")
    for name, record in tool.TABLES.items():
        assert f"<!-- table: {name} -->" in page
        for key in keys_of(record):
            assert f"| `{key.word}` |" in page


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
