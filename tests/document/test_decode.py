"""Decoding: strict, reports all problems at once with location and fix, and round-trips."""

from __future__ import annotations

import datetime
import json
import typing
from dataclasses import dataclass
from typing import Annotated, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.document.decode import decode
from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.field_types import AtLeast, Doc, Keys
from gpuyard.document.read import read_json, read_yaml
from gpuyard.document.schema import json_schema
from gpuyard.errors import InputError
from gpuyard.units import BYTES, DURATION, MONEY, TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    size_bytes: Annotated[float, BYTES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A record for tests."""

    title: str
    count: Annotated[int, AtLeast(1)]
    colour: Literal["red", "green"] = "red"
    deadline_s: Annotated[float | None, DURATION, Doc("when it ends")] = None
    budget_usd: Annotated[float | None, MONEY] = None
    window_tokens: Annotated[int | None, TOKENS] = None
    share: Annotated[float, AtLeast(0)] = 0.5
    flag: bool = False
    day: datetime.date | None = None
    parts: tuple[Part, ...] = ()
    either: str | Part | None = None


def read(text: str) -> Whole:
    return decode(read_yaml(text, "f.yaml").root, Whole, Keys.BARE)


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def test_decode_reads_every_kind_of_field() -> None:
    text = """
title: no
count: 3
deadline: 3d
budget: $4k
window: 8k tokens
day: 2026-08-21
parts: {disk: {size: 80GB}, tape: {size: 1TB}}
either: {name: x, size: 1GB}
"""
    whole = read(text)
    assert whole.title == "no"  # YAML 1.1 would have read false
    assert (whole.deadline_s, whole.budget_usd, whole.window_tokens) == (259200, 4000, 8000)
    assert whole.parts == (Part(name="disk", size_bytes=80e9), Part(name="tape", size_bytes=1e12))
    assert whole.either == Part(name="x", size_bytes=1e9)
    assert load_json(dump_json(whole), Whole) == whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "title: a\ncoutn: 1",
            ['error: f.yaml:2: coutn: unknown key "coutn"\n  fix: did you mean "count"?'],
        ),
        (
            "title: a\ncount: x",
            ['error: f.yaml:2: count: expected an integer, got "x"\n  fix: write an integer'],
        ),
        ("title: a\ncount: 0", ["error: f.yaml:2: count: 0 is below 1\n  fix: write 1 or more"]),
        (
            "title: a\ncount: true",
            ['error: f.yaml:2: count: expected an integer, got "true"\n  fix: write an integer'],
        ),
        (
            "title: [a]\ncount: 1",
            ["error: f.yaml:1: title: expected a text, got a list\n  fix: write a text here"],
        ),
        (
            "title:\ncount: 1",
            ["error: f.yaml:1: title: no value\n  fix: write a text, or remove the key"],
        ),
        (
            "title: a\ncount: 1\nflag: yes",
            [
                'error: f.yaml:3: flag: expected true or false, got "yes"\n  fix: write true or false'
            ],
        ),
        (
            "title: a\ncount: 1\ncolour: rad",
            [
                'error: f.yaml:3: colour: "rad" is not a valid value\n  fix: use "red" (of red or green)'
            ],
        ),
        (
            "title: a\ncount: 1\nbudget: 4000",
            [
                'error: f.yaml:3: budget: "4000" has no currency\n  fix: write it like $4000 or $2.5M'
            ],
        ),
        (
            "title: a\ncount: 1\nshare: 1e400",
            ["error: f.yaml:3: share: not a finite number\n  fix: write a number"],
        ),
        (
            "title: a\ncount: 1\nparts: 3",
            [
                'error: f.yaml:3: parts: expected a list, got "3"\n  fix: write [a, b] or one `- item` per line'
            ],
        ),
        (
            "title: a\ncount: 1\neither: [1]",
            [
                "error: f.yaml:3: either: expected a text or keys and values, got a list\n  fix: write a text or keys and values"
            ],
        ),
        (
            "[1]",
            [
                "error: f.yaml:1: expected keys and values, got a list\n  fix: write title, count, colour, deadline, budget, window, share, flag, day, parts or either"
            ],
        ),
    ],
)
def test_decode_reports_problem_with_line_and_fix(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


def test_decode_reports_all_problems_at_once() -> None:
    lines = problems("colour: blue\nparts: [{name: a, size: 3}, {size: 1GB}]\nwindow: 1.5")
    assert [line.split("\n")[0] for line in lines] == [
        'error: f.yaml:1: colour: "blue" is not a valid value',
        'error: f.yaml:2: parts[0].size: "3" has no unit',
        'error: f.yaml:2: parts[1]: "name" is missing',
        'error: f.yaml:3: window: "1.5" is not an integer',
        'error: f.yaml:1: "title" is missing',
        'error: f.yaml:1: "count" is missing',
    ]


def test_json_schema_agrees_with_decode() -> None:
    schema = json_schema(Whole, Keys.BARE, "Whole")
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(
        {"title": "a", "count": 1, "deadline": "3d", "parts": {"disk": {"size": "80GB"}}}
    )
    for wrong in (
        {"title": "a"},
        {"title": "a", "count": 0},
        {"title": "a", "count": 1, "colour": "blue"},
        {"x": 1},
    ):
        assert not validator.is_valid(wrong)
    properties = typing.cast("dict[str, dict[str, object]]", schema["properties"])
    assert properties["deadline"]["description"] == "when it ends"


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["3d", "80GB"])
)
keys = st.sampled_from(
    ["title", "count", "colour", "deadline", "parts", "either", "size", "name", "x"]
)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=12,
)


@given(trees)
def test_decode_returns_value_or_raises_input_error_for_any_tree(tree: object) -> None:
    try:
        node = read_json(json.dumps(tree, allow_nan=True), "f").root
    except InputError as error:  # an infinite number is not JSON
        assert "not a JSON number" in str(error)
        return
    for style in Keys:
        try:
            whole = decode(node, Whole, style)
        except InputError as error:
            assert error.problems
        else:
            assert load_json(dump_json(whole), Whole) == whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """A list of names, each with its count."""

    pairs: tuple[tuple[str, int], ...]


def test_fixed_tuple_checks_length_and_item_types() -> None:
    assert load_json('{"pairs": [["train", 456], ["test", 1]]}', Pairs) == Pairs(
        pairs=(("train", 456), ("test", 1))
    )
    for wrong in ("[1]", '["a", "b"]', '["a", 1, 2]', '"a"'):
        with pytest.raises(InputError):
            load_json(f'{{"pairs": [{wrong}]}}', Pairs)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(
                json.loads(f'{{"pairs": [{wrong}]}}'), json_schema(Pairs, Keys.SUFFIXED, "Pairs")
            )
