"""docs/concepts/training-model.md says what the data says, and names every part and constant of the model."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.profiles import read_profiles

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "training_reference", ROOT / "tools" / "training_reference.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(tool: ModuleType) -> str:
    return str(tool.PAGE.read_text(encoding="utf-8"))


def test_page_is_up_to_date(tool: ModuleType, page: str) -> None:
    assert tool.render(page) == page, "run python tools/training_reference.py"


def test_page_has_every_table(tool: ModuleType, page: str) -> None:
    for name in (*tool.TABLES, "errors"):
        assert f"<!-- table: {name} -->" in page
    for profile in read_profiles():
        assert f"| `{profile.name}` |" in page


def test_every_constant_appears_in_exactly_one_equation(page: str) -> None:
    equations = page.split("## Symbols")[1].split("## Fitted constants")[0]
    known = {
        re.sub(r"^(attention_ratio)_.*", r"\1", field.name) for field in fields(TrainingConstants)
    }
    for name in known:
        assert re.search(rf"\b{name}\b", equations), name
    ours = {
        word
        for word in re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", equations)
        if not word.startswith("d_")
    }
    assert ours - {"a100_pcie"} <= known | {"contention", "straggler"}


def test_errors_are_inserted_and_preserved(tool: ModuleType, page: str) -> None:
    pasted = tool.render(page, "| kind | rows |\n|---|---|\n| all | 1 |")
    assert "| all | 1 |" in pasted
    assert tool.render(pasted) == pasted
    assert tool.markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    assert tool.code("a|b") == "<code>a&#124;b</code>"
