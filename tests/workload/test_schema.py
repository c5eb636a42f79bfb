"""The JSON Schema: valid itself, accepts the examples, and refuses nothing that the reader accepts."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.document.frozen_json import plain_tree
from gpuyard.document.read import read_yaml
from gpuyard.errors import InputError
from gpuyard.workload.key_rules import ALL_TASKS, keys_of
from gpuyard.workload.read import parse_workload
from gpuyard.workload.schema import workload_schema
from gpuyard.workload.starters import starter
from gpuyard.workload.workload import WorkloadFile

from .rows import CATALOG

VALIDATOR = jsonschema.Draft202012Validator(workload_schema())
EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.yaml"))
TEXTS = [path.read_text("utf-8") for path in EXAMPLES] + [starter(task) for task in ALL_TASKS]
TREES = [plain_tree(read_yaml(text, "w.yaml").root) for text in TEXTS]
WORDS = sorted(
    {key.word for key in keys_of(WorkloadFile)}
    | {
        inner.word
        for key in keys_of(WorkloadFile)
        if key.type.is_record
        for inner in keys_of(key.type.base)
    }
    | {"layers", "experts", "nonsense"}
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["30d", "80GB", "$4M", "20/s", "50%", "15T", "lora", "gke", "hpc", "llama-3-8b", "", "x"]
    )
    | st.sampled_from(
        [[], {}, ["a3-*"], {"dgx-h100": 2}, [{"name": "dgx-h100", "count": 2}], {"layers": 3}]
    )
)


def test_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(workload_schema())
    assert workload_schema() == workload_schema()


@pytest.mark.parametrize("tree", TREES)
def test_schema_accepts_examples_and_starters(tree: object) -> None:
    VALIDATOR.validate(tree)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        [],
        {"task": "training"},
        {"task": "pretraining"},
        {"task": "inference", "model": "llama-3-8b"},
        {"task": "hpc", "hpc": {"offload": "60%", "bound": "fp64"}, "traffic": {}},
        {
            "task": "hpc",
            "hpc": {"offload": "60%", "bound": "fp64"},
            "requirements": {"deadline": 30},
        },
        {"task": "hpc", "hpc": {"offload": "60%", "bound": "fp64"}, "requirements": {"ttft": "1s"}},
        {"task": "hpc", "hpc": {"offload": "60%", "bound": "fp64"}, "pipeline": {"bake": {}}},
    ],
)
def test_schema_rejects_invalid_keys_and_values(tree: object) -> None:
    assert not VALIDATOR.is_valid(tree)


def places(tree: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The path of every value in a tree."""
    found = [path]
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += places(value, (*path, key))
    if isinstance(tree, list):
        for index, value in enumerate(tree):
            found += places(value, (*path, index))
    return found


@st.composite
def mutants(draw: st.DrawFn) -> object:
    """A valid file with one to three values replaced, keys removed or keys added."""
    tree = copy.deepcopy(draw(st.sampled_from(TREES)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(tree)))
        parent, node = None, tree
        for step in path:
            parent, node = node, node[step]  # type: ignore[index,call-overload]
        deed = draw(st.sampled_from(["replace", "remove", "add"]))
        if deed == "add" and isinstance(node, dict):
            node[draw(st.sampled_from(WORDS))] = copy.deepcopy(draw(LEAVES))
        elif parent is not None and deed == "remove":
            del parent[path[-1]]  # type: ignore[attr-defined]
        elif parent is not None:
            parent[path[-1]] = copy.deepcopy(draw(LEAVES))  # type: ignore[index]
    return tree


@given(mutants())
@settings(max_examples=300, deadline=None)
def test_reader_rejects_what_schema_rejects(tree: object) -> None:
    if VALIDATOR.is_valid(tree):
        return
    with pytest.raises(InputError):
        parse_workload(json.dumps(tree), "w.yaml", CATALOG)
