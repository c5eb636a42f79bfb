"""JSON Schema as a grammar: every valid text is accepted character by character, and no other."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.serving.json_grammar import Grammar, any_object
from gpuyard.serving.request_errors import RequestError

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
}


def accepts(schema: object, text: str) -> bool:
    grammar = Grammar(schema)
    state = grammar.advance(grammar.start, text)
    return state is not None and state.is_complete


@pytest.mark.parametrize(
    ("schema", "text", "valid"),
    [
        (PERSON, '{"name": "Ann", "age": 5, "tags": ["a", "b"]}', True),
        (PERSON, '{"name":"Ann","tags":[]}', True),
        (PERSON, '{"name":"","tags":[]}', False),
        (PERSON, '{"name":"Ann","age":5}', False),
        (PERSON, '{"name":"Annabel","tags":[]}', False),
        (PERSON, '{"name":"Ann","tags":["a","b","a"]}', False),
        (PERSON, '{"name":"Ann","tags":["c"]}', False),
        (TREE, "[[], [[]]]", True),
        (TREE, "[[], 1]", False),
        ({"type": ["integer", "null"]}, "-17", True),
        ({"type": ["integer", "null"]}, "null", True),
        ({"type": "integer"}, "1.5", False),
        ({"type": "integer"}, "012", False),
        ({"type": "number"}, "-1.5e+3", True),
        ({"anyOf": [{"const": 1}, {"type": "boolean"}]}, "true", True),
        ({"type": "array", "items": {"type": "null"}, "minItems": 2}, "[null]", False),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, '{"a": 1}', True),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, '{"a": "b"}', False),
        ({"type": "string"}, '"a\\u00e9\\n"', True),
        ({"type": "string"}, '"a\n"', False),
    ],
)
def test_texts_are_accepted_if_the_schema_allows_them(
    schema: object, text: str, valid: bool
) -> None:
    assert accepts(schema, text) is valid


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
def test_any_object_accepts_what_python_writes(value: dict[str, object]) -> None:
    grammar = any_object()
    state = grammar.advance(grammar.start, json.dumps(value, ensure_ascii=False))
    assert state is not None
    assert state.is_final


@pytest.mark.parametrize("seed", range(5))
def test_random_walks_through_a_grammar_end_in_valid_json(seed: int) -> None:
    choice, grammar = random.Random(seed), Grammar(PERSON)
    state, text = grammar.start, ""
    alphabet = '{}[]":, abAnename0123456789-tgs\\'
    while not state.is_final:
        options = [item for item in sorted(set(alphabet)) if grammar.advance(state, item)]
        text += choice.choice(options)
        state = grammar.advance(state, text[-1]) or state
    value = json.loads(text)
    assert set(value) >= {"name", "tags"}
    assert 1 <= len(value["name"]) <= 5
    assert isinstance(value.get("age", 0), int)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "pattern": "a+"}, "pattern is not supported"),
        ({"type": "text"}, "no type of JSON"),
        ({"$ref": "#/$defs/x"}, "does not exist"),
        ({"$ref": "https://example.com"}, "not in the schema itself"),
        ({"enum": []}, "enum is not a list"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "maxItems is below minItems"),
        ({"type": "string", "maxLength": -1}, "maxLength is not a number"),
        ({"properties": {}, "required": ["a"], "additionalProperties": False}, "a is required"),
        ({"properties": {"a": {}}, "required": [["a"]]}, "required is not a list of names"),
        ({"type": []}, "no type of JSON"),
        (5, "5 is not a schema"),
    ],
)
def test_schemas_that_cannot_be_followed_are_refused(schema: object, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Grammar(schema)
