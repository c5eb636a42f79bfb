"""Any file at all: a Workload or an InputError comes out, and every problem has its place, what and fix."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import InputError
from gpuyard.workload.key_rules import ALL_TASKS
from gpuyard.workload.read import parse_workload, read_workload
from gpuyard.workload.starters import starter
from gpuyard.workload.workload import Workload

from .rows import CATALOG
from .test_schema import LEAVES, TEXTS, WORDS

FILE = "w.yaml"
LINES = sorted({line for text in TEXTS for line in text.splitlines()})
SCRAPS = [
    "",
    " ",
    "\t",
    "  ",
    ":",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "&a",
    "*a",
    "!!x",
    '"',
    "'",
    "#",
    "|",
    "%",
    "\x00",
    "é",
    "…",
    "\u2028",
    "\ufeff",
    "---",
    "...",
    "? ",
    "<<: *a",
    "0x",
    "1e999",
    "9" * 60,
    "-1",
    "$",
    "$1",
    "1:30",
    "=",
    "~",
]


def outcome(text: str) -> Workload | None:
    """The workload, or None for a proper refusal; anything else fails the test."""
    try:
        workload = parse_workload(text, FILE, CATALOG)
    except InputError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.where == FILE or problem.where.startswith((f"{FILE}:", f"{FILE}: "))
            assert problem.what.strip()
            assert problem.fix.strip()
        return None
    assert load_json(dump_json(workload), Workload) == workload
    return workload


@pytest.mark.slow
@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_raises_input_error(text: str) -> None:
    outcome(text)


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_raise_input_error(tmp_path_factory: object, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"  # type: ignore[attr-defined]
    path.write_bytes(content)
    try:
        read_workload(path, CATALOG)
    except InputError as error:
        assert all(
            problem.where.startswith(str(path)) and problem.fix for problem in error.problems
        )


trees = st.recursive(
    LEAVES | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
    ),
    max_leaves=25,
)


@pytest.mark.slow
@given(st.sampled_from(ALL_TASKS), st.dictionaries(st.sampled_from(WORDS), trees, max_size=8))
@settings(max_examples=300, deadline=None)
def test_any_tree_of_known_keys_is_read_or_raises_input_error(
    task: str, tree: dict[str, object]
) -> None:
    outcome(dump_json({"task": task, **tree}))


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A valid file with lines deleted, doubled, swapped, taken from another file, or cut open with a scrap."""
    lines = draw(st.sampled_from(TEXTS)).splitlines()
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        deed = draw(
            st.sampled_from(["delete", "double", "swap", "foreign", "scrap", "indent", "value"])
        )
        if not lines or deed == "foreign":
            lines.insert(at, draw(st.sampled_from(LINES)))
        elif deed == "delete":
            del lines[at]
        elif deed == "double":
            lines.insert(at, lines[at])
        elif deed == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif deed == "indent":
            lines[at] = draw(st.sampled_from([" ", "  ", "    ", "\t", "- "])) + lines[at]
        elif deed == "value":
            lines[at] = f"{lines[at].partition(':')[0]}: {draw(st.sampled_from(SCRAPS))}"
        else:
            cut = draw(st.integers(0, len(lines[at])))
            lines[at] = lines[at][:cut] + draw(st.sampled_from(SCRAPS)) + lines[at][cut:]
    return "\n".join(lines)


@given(mangled())
@settings(max_examples=500, deadline=None)
def test_any_mangled_file_is_read_or_raises_input_error(text: str) -> None:
    outcome(text)


def test_fuzzer_generates_valid_workloads() -> None:
    assert outcome(starter("inference")) is not None
    assert outcome(Path(__file__).read_text("utf-8")) is None
