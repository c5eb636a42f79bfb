"""FrozenJson sections, and records of a name and one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.document.decode import decode
from gpuyard.document.encode import dump_json, load_json, plain
from gpuyard.document.field_types import AtLeast, Keys
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.document.read import read_yaml
from gpuyard.document.schema import json_schema
from gpuyard.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Machines of one type."""

    name: str
    count: Annotated[int, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hall:
    """A record with named items and a free-form section."""

    stock: tuple[Stock, ...] = ()
    stage: FrozenJson | None = None


def read(text: str) -> Hall:
    return decode(read_yaml(text, "f.yaml").root, Hall, Keys.BARE)


trees = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def test_frozen_json_ignores_key_order() -> None:
    one = read("stage: {a: 1, b: [x, 2026-08-21, null], c: {d: true}}").stage
    other = read("stage: {c: {d: true}, b: [x, 2026-08-21, null], a: 1}").stage
    assert one == other
    assert one is not None
    assert one.plain() == {"a": 1, "b": ["x", "2026-08-21", None], "c": {"d": True}}
    assert hash(one) == hash(other)


@given(st.dictionaries(st.text(max_size=4), trees, max_size=4))
def test_frozen_json_round_trips(tree: dict[str, object]) -> None:
    hall = Hall(stage=FrozenJson.of(tree))  # type: ignore[arg-type]
    assert load_json(dump_json(hall), Hall) == hall
    assert plain(hall) == {"stock": [], "stage": hall.stage.plain() if hall.stage else None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stage: 3", 'f.yaml:1: stage: expected keys and values, got "3"'),
        ("stage: [a]", "f.yaml:1: stage: expected keys and values, got a list"),
        ("stage:\n  a: {b: [1e999]}", "f.yaml:2: stage.a.b[0]: not a finite number"),
        ("stock: {dgx: many}", 'f.yaml:1: stock.dgx: expected an integer, got "many"'),
        ("stock: {dgx: 0}", "f.yaml:1: stock.dgx: 0 is below 1"),
        ("stock: {dgx: }", "f.yaml:1: stock.dgx: no value"),
    ],
)
def test_wrong_value_raises_input_error_with_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert message in str(caught.value)


def test_record_of_name_and_value_has_short_form() -> None:
    long = read("stock: [{name: dgx, count: 16}]")
    assert read("stock: {dgx: 16}") == read("stock: {dgx: {count: 16}}") == long
    validator = jsonschema.Draft202012Validator(json_schema(Hall, Keys.BARE, "Hall"))
    assert validator.is_valid({"stock": {"dgx": 16}, "stage": {"any": [1]}})
    assert validator.is_valid({"stock": [{"name": "dgx", "count": 16}]})
    assert not validator.is_valid({"stock": {"dgx": "16"}})
    assert not validator.is_valid({"stage": [1]})


def test_location_is_line_of_key() -> None:
    document = read_yaml("stage:\n\n  a:\n    b: 1\n", "f.yaml")
    assert str(document.location("stage")) == "f.yaml:1: stage"
    assert str(document.location("stage.a")) == "f.yaml:3: stage.a"
    assert str(document.location("stage.a.b")) == "f.yaml:4: stage.a.b"


@pytest.mark.parametrize("text", ["[" * 300_000, "{a: " * 300_000, "- " * 300_000, "? " * 300_000])
def test_deep_nesting_raises_input_error(text: str) -> None:
    with pytest.raises(InputError, match="nested too deep"):
        read_yaml(text, "f.yaml")
