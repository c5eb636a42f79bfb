"""The strict validator: the same verdict as jsonschema, every mutation of our samples caught, places and fixes."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator

import jsonschema
import pytest

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ArtefactDocument
from gpuyard.provision.file_kinds import read_documents
from gpuyard.provision.schemas.library import Library, library
from gpuyard.provision.schemas.schema import Schema, parse_schema
from gpuyard.provision.validate.google import google_methods
from gpuyard.provision.validate.schema import schema_findings, with_defaults, without_nulls

from ..trees import SAMPLES, leaves, sample

BODIES = sorted(path.name for path in SAMPLES.glob("*.json"))
OBJECTS = ("jobset-a3mega.yaml", "jobset-a4x.yaml", "kueue.yaml", "lws.yaml", "rayjob.yaml")


@functools.cache
def parts(name: str) -> tuple[ArtefactDocument, ...]:
    """The parts of a sample that a shipped schema describes."""
    parsed, _ = read_documents(sample(name))
    return tuple(part for part in parsed if "ComputeDomain" not in part.type)


def schema_of(part: ArtefactDocument) -> tuple[Schema, Library, str]:
    """The schema of a part, its library and its method."""
    if part.kind == "google":
        api, method = google_methods()[part.method]
        return library(api).schema(method.request), library(api), part.method
    books = next(
        library(name) for name in ("kubernetes", "crds") if part.type in library(name).kinds
    )
    return books.schema(books.kinds[part.type]), books, ""


def errors(body: Plain, part: ArtefactDocument) -> list[Finding]:
    """The errors of a body by the schema of a part."""
    schema, books, method = schema_of(part)
    return [
        finding
        for finding in schema_findings(body, schema, books, method)
        if finding.severity == "error"
    ]


def replaced(tree: Plain, path: tuple[str | int, ...], value: Plain) -> Plain:
    """A copy with one value replaced."""
    new = copy.deepcopy(tree)
    node = new
    for key in path[:-1]:
        node = node[key]  # type: ignore[index, call-overload]
    node[path[-1]] = value  # type: ignore[index, call-overload]
    return new


def misspelled(tree: Plain, path: tuple[str | int, ...]) -> Plain:
    """A copy with the last key of the path misspelled."""
    new = copy.deepcopy(tree)
    node = new
    for key in path[:-1]:
        node = node[key]  # type: ignore[index, call-overload]
    assert isinstance(node, dict)
    assert isinstance(path[-1], str)
    node[path[-1] + "q"] = node.pop(path[-1])
    return new


def wrong_type(value: Plain) -> Plain:
    """A value that no field of this value's type takes."""
    return "wrong" if isinstance(value, dict | list) else {"wrong": ["type"]}


def is_free(part: ArtefactDocument, path: tuple[str | int, ...]) -> bool:
    """Whether the path's last key is of a map whose keys are the user's own."""
    schema, books, _ = schema_of(part)
    for key in path[:-1]:
        schema = books.resolved(schema)
        inner = (
            schema.items
            if isinstance(key, int)
            else (schema.properties or {}).get(key) or schema.additional
        )
        if inner is None:
            return True
        schema = inner
    schema = books.resolved(schema)
    return path[-1] not in (schema.properties or {})


def all_parts() -> Iterator[ArtefactDocument]:
    """Every part of every sample."""
    for name in (*BODIES, *OBJECTS):
        yield from parts(name)


@pytest.mark.parametrize("name", [*BODIES, *OBJECTS])
def test_sample_has_no_schema_errors(name: str) -> None:
    for part in parts(name):
        assert errors(part.body, part) == []


def test_every_invalid_type_is_an_error() -> None:
    tried = 0
    for part in all_parts():
        for path, value in leaves(part.body):
            if is_free(part, path) and part.kind == "kubernetes":
                continue  # limits take numbers and texts alike
            tried += 1
            assert errors(replaced(part.body, path, wrong_type(value)), part), (part.type, path)
    assert tried > 600


def test_every_invalid_enum_value_is_an_error() -> None:
    tried = 0
    for part in all_parts():
        schema, books, _ = schema_of(part)
        for path, value in leaves(part.body):
            if isinstance(value, str) and enum_at(schema, books, path):
                tried += 1
                assert errors(replaced(part.body, path, value + "X"), part), (part.type, path)
    assert tried > 60


def enum_at(schema: Schema, books: Library, path: tuple[str | int, ...]) -> bool:
    """Whether the place has a list of values."""
    for key in path:
        schema = books.resolved(schema)
        inner = (
            schema.items
            if isinstance(key, int)
            else (schema.properties or {}).get(key) or schema.additional
        )
        if inner is None:
            return False
        schema = inner
    return bool(books.resolved(schema).enum)


def test_every_misspelled_key_is_an_error_outside_free_maps() -> None:
    tried = caught = 0
    for part in all_parts():
        for path, _ in leaves(part.body):
            if isinstance(path[-1], int):
                continue
            tried += 1
            is_caught = bool(errors(misspelled(part.body, path), part))
            caught += is_caught
            assert is_caught or is_free(part, path), (part.type, path)
    assert tried > 600
    assert caught / tried > 0.90  # the rest are labels, limits and the like


@pytest.mark.parametrize("name", BODIES)
def test_verdict_matches_jsonschema(name: str) -> None:
    """On the sample and on every mutation of it."""
    (part,) = parts(name)
    api, method = google_methods()[part.method]
    oracle = jsonschema.Draft202012Validator(
        {"$ref": f"#/$defs/{method.request}", "$defs": library(api).raw}
    )
    schema, books, _ = schema_of(part)
    bodies = [part.body]
    for path, value in leaves(part.body):
        bodies += [replaced(part.body, path, wrong_type(value)), replaced(part.body, path, "X")]
        if isinstance(path[-1], str):
            bodies.append(misspelled(part.body, path))
    for body in bodies:
        ours = not [
            finding
            for finding in schema_findings(body, schema, books)
            if finding.severity == "error"
        ]
        assert ours == oracle.is_valid(body), body


def test_finding_has_path_and_closest_match() -> None:
    (part,) = parts("instance-reserved.json")
    (finding,) = errors(misspelled(part.body, ("scheduling", "provisioningModel")), part)
    assert finding.where == "scheduling.provisioningModelq"
    assert finding.fix == 'did you mean "provisioningModel"?'
    (finding,) = errors(replaced(part.body, ("scheduling", "provisioningModel"), "SPOTT"), part)
    assert finding.fix == 'use "SPOT"'
    (finding,) = errors(replaced(part.body, ("name",), 7), part)
    assert finding.fix == 'quote it: "7"'


def test_field_required_by_method_is_an_error() -> None:
    (part,) = parts("instance-reserved.json")
    body = {key: value for key, value in part.body.items() if key != "name"}  # type: ignore[union-attr]
    (finding,) = errors(body, part)
    assert "compute.instances.insert requires it" in finding.what


def test_read_only_field_is_a_warning() -> None:
    (part,) = parts("network-data.json")
    schema, books, method = schema_of(part)
    findings = schema_findings({**part.body, "selfLink": "x"}, schema, books, method)  # type: ignore[dict-item]
    assert [finding.severity for finding in findings] == ["warning"]


def test_nulls_are_dropped_and_defaults_set_before_validation() -> None:
    schema = parse_schema(
        {
            "type": "object",
            "required": ["mode"],
            "additionalProperties": False,
            "properties": {
                "mode": {"type": "string", "default": "Fast"},
                "size": {"type": "integer"},
            },
        }
    )
    books = library("crds")
    assert schema_findings({"size": None}, schema, books) == ()
    assert with_defaults({}, schema, books) == {"mode": "Fast"}
    assert without_nulls({"a": [{"b": None}]}) == {"a": [{}]}


@pytest.mark.parametrize(
    ("raw", "good", "bad"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 3}, 2, 4),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "ab", "abcd"),
        ({"type": "string", "pattern": "(?i)^a+$"}, "aA", "b"),
        ({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}}, ["a"], []),
        (
            {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
            {"a": "b"},
            {"a": "b", "c": "d"},
        ),
        ({"type": ["string", "integer"]}, 3, 3.5),
        ({"type": "number"}, 3, True),
        (
            {"type": "array", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object"}},
            [{"name": "a"}],
            [{"name": "a"}, {"name": "a"}],
        ),
        ({"type": "string", "enum": ["A", "B"]}, "A", "${MODE}"),
    ],
)
def test_schema_keyword_is_enforced(raw: Plain, good: Plain, bad: Plain) -> None:
    assert schema_findings(good, parse_schema(raw), library("crds")) == ()
    assert schema_findings(bad, parse_schema(raw), library("crds"))
