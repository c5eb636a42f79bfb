"""The shipped API descriptions: one library per API, loaded and parsed on first use."""

from __future__ import annotations

import functools
import gzip
import json
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.schemas.schema import Schema, parse_schema

DATA = Path(__file__).parent / "data"
GOOGLE_APIS = (
    "compute.v1",
    "container.v1",
    "run.v2",
    "run.v1",
    "aiplatform.v1",
    "tpu.v2",
    "hypercomputecluster.v1",
    "file.v1",
    "storage.v1",
)
KUBERNETES_LIBRARIES = ("kubernetes", "crds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Source of a description."""

    title: str
    url: str
    revision: str
    date: str
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method of a Google API: URL, query parameters, request and response schemas."""

    name: str
    http: str
    path: str
    query: tuple[str, ...]
    request: str
    response: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A Cluster Toolkit module: variables with their types, required variables, and outputs."""

    variables: dict[str, str]
    required: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One API description: its kinds or methods, and its schemas by name."""

    name: str
    origins: tuple[Origin, ...]
    kinds: dict[str, str]
    methods: dict[str, Method]
    raw: dict[str, Plain]
    parsed: dict[str, Schema]

    def schema(self, name: str) -> Schema:
        if name not in self.parsed:
            self.parsed[name] = parse_schema(self.raw[name])
        return self.parsed[name]

    def resolved(self, schema: Schema) -> Schema:
        while schema.ref:
            schema = self.schema(schema.ref)
        return schema


@functools.cache
def library(name: str) -> Library:
    """Load a library: one of GOOGLE_APIS or KUBERNETES_LIBRARIES."""
    data = _read(name)
    return Library(
        name=name,
        origins=tuple(_origin(row) for row in _rows(data.get("origins"))),
        kinds={kind: str(schema) for kind, schema in _mapping(data.get("kinds")).items()},
        methods={
            method: _method(method, _mapping(row))
            for method, row in _mapping(data.get("methods")).items()
        },
        raw=_mapping(data.get("defs")),
        parsed={},
    )


def library_of(kind: str) -> Library | None:
    """Return the library with a Kubernetes kind (`batch/v1 Job`), or None."""
    return next(
        (library(name) for name in KUBERNETES_LIBRARIES if kind in library(name).kinds), None
    )


@functools.cache
def toolkit_modules() -> dict[str, Module]:
    """Return the Cluster Toolkit's modules by their path in its repository."""
    modules = {}
    for name, row in _mapping(_read("toolkit").get("modules")).items():
        module = _mapping(row)
        types = {key: str(kind) for key, kind in _mapping(module.get("variables")).items()}
        outputs = module.get("outputs")
        modules[name] = Module(
            variables={key: kind.removesuffix("!") for key, kind in types.items()},
            required=tuple(key for key, kind in types.items() if kind.endswith("!")),
            outputs=tuple(str(output) for output in outputs) if isinstance(outputs, list) else (),
        )
    return modules


@functools.cache
def provider_resources() -> dict[str, Plain]:
    """Return the resources of Terraform's Google provider: arguments and nested blocks."""
    return _mapping(_read("terraform").get("resources"))


@functools.cache
def provider_origin() -> Origin:
    """Return the release of the provider that `provider_resources` describes."""
    return _origin(_rows(_read("terraform").get("origins"))[0])


def _read(name: str) -> dict[str, Plain]:
    return _mapping(json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes())))


def _mapping(raw: Plain) -> dict[str, Plain]:
    return raw if isinstance(raw, dict) else {}


def _rows(raw: Plain) -> list[dict[str, Plain]]:
    return [row for row in raw if isinstance(row, dict)] if isinstance(raw, list) else []


def _origin(row: dict[str, Plain]) -> Origin:
    return Origin(
        title=str(row["title"]),
        url=str(row["url"]),
        revision=str(row["revision"]),
        date=str(row["date"]),
        licence=str(row["licence"]),
    )


def _method(name: str, row: dict[str, Plain]) -> Method:
    query = row["query"]
    return Method(
        name=name,
        http=str(row["http"]),
        path=str(row["path"]),
        query=tuple(str(name) for name in query) if isinstance(query, list) else (),
        request=str(row["request"] or ""),
        response=str(row["response"] or ""),
    )
