"""Validation of Google API request bodies: which schema a body has, and what is wrong with it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import Finding, InputError, closest_match
from gpuyard.provision.artefact_document import ArtefactDocument
from gpuyard.provision.schemas.library import GOOGLE_APIS, Library, Method, library
from gpuyard.provision.schemas.schema import Schema
from gpuyard.provision.validate.schema import schema_findings

# Objects inside a request that people also keep as separate files.
INNER = {
    "container.v1": ("NodePool", "Cluster"),
    "aiplatform.v1": ("GoogleCloudAiplatformV1Model",),
}
CREATES = ("insert", "create", "upload", "deployModel", "bulkInsert")
LONG = re.compile(r"^(GoogleCloudAiplatformV1|GoogleCloudRunV2)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _BodySchema:
    api: str
    name: str
    method: str  # that creates the resource; empty for an object inside a request

    @property
    def type(self) -> str:
        return f"{self.api} {LONG.sub('', self.name)}"

    @property
    def library(self) -> Library:
        return library(self.api)

    @property
    def schema(self) -> Schema:
        return self.library.schema(self.name)


@functools.cache
def google_methods() -> dict[str, tuple[str, Method]]:
    """Return every API method by its id (compute.instances.insert), with its API.

    Cloud Run v2 comes before v1.
    """
    methods: dict[str, tuple[str, Method]] = {}
    for api in GOOGLE_APIS:
        for name, method in library(api).methods.items():
            methods.setdefault(name, (api, method))
    return methods


@functools.cache
def _body_schemas() -> dict[str, _BodySchema]:
    # By type, e.g. "compute.v1 Instance".
    bodies: list[_BodySchema] = []
    for api in GOOGLE_APIS:
        for method in library(api).methods.values():
            if method.request and method.name.rsplit(".", 1)[1] in CREATES:
                bodies.append(_BodySchema(api=api, name=method.request, method=method.name))
        bodies += [_BodySchema(api=api, name=name, method="") for name in INNER.get(api, ())]
    return {body.type: body for body in reversed(bodies)}  # the first of a type wins


def _body_of_method(name: str) -> _BodySchema:
    api, method = google_methods()[name]
    return _BodySchema(api=api, name=method.request, method=name)


def find_method(text: str) -> str:
    """Return the longest method id in a file name, or an empty string."""
    methods = google_methods().items()
    names = [name for name, (_, method) in methods if method.request and name in text]
    return max(names, key=len, default="")


def schema_named(name: str, where: str) -> tuple[str, str]:
    """Return method and type of `compute.instances.insert` or `compute.v1.Instance`."""
    if name in google_methods():
        body = _body_of_method(name)
        if not body.name:
            fix = "lint the body of a method that creates something"
            raise InputError.one(where, f"{name} takes no body", fix)
        return name, body.type
    type_name = re.sub(r"^([a-z]+\.v\d+)\.", r"\1 ", name)
    if type_name in _body_schemas():
        return _body_schemas()[type_name].method, type_name
    methods = [method for method, (_, row) in google_methods().items() if row.request]
    match = closest_match(type_name, [*_body_schemas(), *methods])
    fix = f'use "{match}"' if match else "see the lint guide"
    raise InputError.one(where, f'no method or body named "{name}"', fix)


def guess_schema(body: dict[str, Plain]) -> str:
    """Return the type that fits the body best, or an empty string.

    A type fits if more than half of the keys are known to it and at most half of them are wrong;
    the fewest mistakes win, then the smallest schema.
    """
    best: tuple[int, int, str] | None = None
    for name, candidate in _body_schemas().items():
        schema = candidate.library.resolved(candidate.schema)
        properties = schema.properties or {}
        known = sum(key in properties and not properties[key].is_read_only for key in body)
        if known * 2 <= len(body) or candidate.api == "run.v1":  # its bodies have a kind
            continue
        findings = schema_findings(body, schema, candidate.library, candidate.method)
        wrong = [finding.where for finding in findings if finding.severity == "error"]
        if 2 * len({re.split(r"[.\[]", path)[0] for path in wrong}) > len(body):
            continue
        rank = (len(wrong) + len(body) - known, len(properties), name)
        best = min(best, rank) if best else rank
    return best[2] if best else ""


def google_findings(document: ArtefactDocument) -> Iterator[Finding]:
    """Yield what is wrong with a request body."""
    body = _body_schemas().get(document.type) or _body_of_method(document.method)
    # gcloud sets what the Knative form (run.v1) leaves out.
    method = document.method or ("" if body.api == "run.v1" else body.method)
    for finding in schema_findings(document.body, body.schema, body.library, method):
        yield replace(finding, where=document.where(finding.where))
    if document.method and isinstance(document.parameters, dict):
        yield from _parameter_findings(document, document.parameters)


def _parameter_findings(
    document: ArtefactDocument, parameters: dict[str, Plain]
) -> Iterator[Finding]:
    def error(what: str, fix: str) -> Finding:
        return Finding(rule="schema", severity="error", where=document.file, what=what, fix=fix)

    _, method = google_methods()[document.method]
    in_path = tuple(re.findall(r"\{\+?(\w+)\}", method.path))
    known = (*in_path, *method.query)
    for name in in_path:
        if name not in parameters:
            what = f'the parameter "{name}" of {method.name} is missing'
            yield error(what, f"add parameters.{name}")
    for name in parameters:
        if name not in known:
            match = closest_match(name, known)
            fix = f'did you mean "{match}"?' if match else "remove it"
            yield error(f'{method.name} has no parameter "{name}"', fix)
