"""Bodies of Google requests: which schema a body has, and what is wrong with it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from gpuyard.document import Plain
from gpuyard.errors import InputError, nearest
from gpuyard.provision.finding import Finding
from gpuyard.provision.part import Part
from gpuyard.provision.schemas import GOOGLE_APIS, Method, library
from gpuyard.provision.validate.schema import faults

__all__ = ["find_method", "google_faults", "google_methods", "guess_schema", "schema_named"]

# Objects that stand inside a request and that people keep as files of their own.
INNER = {"container.v1": ("NodePool", "Cluster"), "aiplatform.v1": ("GoogleCloudAiplatformV1Model",)}
CREATES = ("insert", "create", "upload", "deployModel", "bulkInsert")
LONG = re.compile(r"^(GoogleCloudAiplatformV1|GoogleCloudRunV2)")


@functools.cache
def google_methods() -> dict[str, tuple[str, Method]]:
    """Every method by its id, e.g. compute.instances.insert, with the API that has it; v2 of Cloud Run before v1."""
    methods: dict[str, tuple[str, Method]] = {}
    for api in GOOGLE_APIS:
        for name, method in library(api).methods.items():
            methods.setdefault(name, (api, method))
    return methods


@functools.cache
def _candidates() -> dict[str, tuple[str, str, str]]:
    """Bodies by their type: API, schema and the method that creates them."""
    found: dict[str, tuple[str, str, str]] = {}
    for api in GOOGLE_APIS:
        for method in library(api).methods.values():
            if method.request and method.name.rsplit(".", 1)[1] in CREATES:
                found.setdefault(_type(api, method.request), (api, method.request, method.name))
        for name in INNER.get(api, ()):
            found.setdefault(_type(api, name), (api, name, ""))
    return found


def _type(api: str, schema: str) -> str:
    """The name of a body as people know it: compute.v1 Instance."""
    return f"{api} {LONG.sub('', schema)}"


def find_method(text: str) -> str:
    """The method whose id stands in a file name, or an empty text."""
    found = [name for name, (_, method) in google_methods().items() if method.request and name in text]
    return max(found, key=len, default="")


def schema_named(given: str, where: str) -> tuple[str, str]:
    """Method and type of a name as users write it: `compute.instances.insert` or `compute.v1.Instance`."""
    if given in google_methods():
        api, method = google_methods()[given]
        if not method.request:
            raise InputError.one(where, f"{given} takes no body", "lint the body of a method that creates something")
        return given, _type(api, method.request)
    spelled = re.sub(r"^([a-z]+\.v\d+)\.", r"\1 ", given)
    if spelled in _candidates():
        return _candidates()[spelled][2], spelled
    names = [*_candidates(), *(name for name, (_, method) in google_methods().items() if method.request)]
    meant = nearest(spelled, names)
    raise InputError.one(where, f'no method or body named "{given}"', f'use "{meant}"' if meant else "see the guide")


def guess_schema(body: dict[str, Plain]) -> str:
    """The type that fits the body best; empty where fewer than half of its keys are known to any."""
    best: tuple[float, int, str] | None = None
    for name, (api, schema_name, method) in _candidates().items():
        books = library(api)
        schema = books.resolved(books.schema(schema_name))
        properties = schema.properties or {}
        known = sum(key in properties and not properties[key].is_read_only for key in body)
        if known * 2 <= len(body) or api == "run.v1":  # whose bodies tell their kind
            continue
        wrong = [fault.path for fault in faults(body, schema, books, method) if fault.severity == "error"]
        if 2 * len({re.split(r"[.\[]", path)[0] for path in wrong}) > len(body):
            continue
        rank = (len(wrong) + len(body) - known, len(properties), name)
        best = min(best, rank) if best else rank
    return best[2] if best else ""


def google_faults(part: Part) -> Iterator[Finding]:
    """What is wrong with a body by its schema."""
    api, schema_name, creator = _candidates().get(part.type) or _of_method(part)
    books = library(api)
    method = part.method or ("" if api == "run.v1" else creator)  # gcloud fills in what the Knative form leaves out
    for fault in faults(part.body, books.schema(schema_name), books, method):
        where = part.place(fault.path)
        yield Finding(rule="schema", severity=fault.severity, where=where, what=fault.what, fix=fault.fix)
    if part.method and isinstance(part.parameters, dict):
        yield from _parameter_faults(part, part.parameters)


def _of_method(part: Part) -> tuple[str, str, str]:
    """API, schema and method of a body that no creating method takes."""
    api, method = google_methods()[part.method]
    return api, method.request, method.name


def _parameter_faults(part: Part, given: dict[str, Plain]) -> Iterator[Finding]:
    """Parameters that the method's address lacks or does not know."""
    _, method = google_methods()[part.method]
    in_path = tuple(re.findall(r"\{\+?(\w+)\}", method.path))
    for name in in_path:
        if name not in given:
            what = f'the parameter "{name}" of {method.name} is missing'
            yield Finding(rule="schema", severity="error", where=part.file, what=what, fix=f"add parameters.{name}")
    for name in given:
        if name not in (*in_path, *method.query):
            meant = nearest(name, (*in_path, *method.query))
            fix = f'did you mean "{meant}"?' if meant else "remove it"
            what = f'{method.name} has no parameter "{name}"'
            yield Finding(rule="schema", severity="error", where=part.file, what=what, fix=fix)
