"""What a file is: Kubernetes objects, a Google request, a Toolkit blueprint, a batch script or a record of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpuyard.document import Document, Plain, read_json, read_yaml_stream
from gpuyard.document.settings import plain_tree
from gpuyard.errors import InputError, Problem
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.finding import Finding
from gpuyard.provision.part import Part
from gpuyard.provision.validate.google import find_method, guess_schema, schema_named
from gpuyard.provision.validate.records import RECORDS
from gpuyard.provision.validate.sbatch import script_part

__all__ = ["read_parts"]

TEMPLATE = re.compile(r"\{\{|^\s*%\{|\$\{\w+\}", re.MULTILINE)
DEPLOYMENT_KEYS = {"vars", "terraform_backend_defaults", "validation_level", "terraform_providers"}
UNKNOWN_FIX = "name what it is with --as, e.g. --as compute.v1.Instance or --as compute.instances.insert"


def read_parts(artefact: Artefact, given: str = "") -> tuple[tuple[Part, ...], tuple[Finding, ...]]:
    """The parts of a file, and the keys that it gives twice; `given` names a body that does not tell what it is."""
    if _is_script(artefact):
        return (script_part(artefact.name, artefact.text),), ()
    documents, twice = _documents(artefact)
    parts = tuple(
        part for number, document in enumerate(documents, start=1) for part in _parts(artefact, document, number, given)
    )
    if not parts:
        fix = "write the objects, or leave the file out: a template that renders to nothing looks like this"
        raise InputError.one(artefact.name, "holds nothing to deploy: no object stands in it", fix)
    what = "only the last one counts"
    return parts, tuple(
        Finding(rule="twice", severity="error", where=problem.where, what=f"{problem.what}: {what}", fix=problem.fix)
        for problem in twice
    )


def _is_script(artefact: Artefact) -> bool:
    """A shell script, with or without batch options."""
    return bool(re.match(r"#!.*sh\b", artefact.text) or re.search(r"^#SBATCH\s", artefact.text, re.MULTILINE))


def _documents(artefact: Artefact) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
    """The file's documents with their lines; JSON is read as the YAML that it nearly always is."""
    try:
        return read_yaml_stream(artefact.text, artefact.name)
    except InputError:
        if TEMPLATE.search(artefact.text):
            fix = "render it first, e.g. `helm template CHART > out.yaml`"
            raise InputError.one(artefact.name, "a template, not a manifest: it holds {{ }} or ${ }", fix) from None
        if artefact.text.lstrip()[:1] not in ("{", "["):
            raise
        return (read_json(artefact.text, artefact.name),), ()


def _parts(artefact: Artefact, document: Document, number: int, given: str) -> Iterator[Part]:
    """The parts of one document."""
    body = plain_tree(document.root)
    if not isinstance(body, dict):
        raise InputError.one(str(document.root.place), "not a mapping of keys", UNKNOWN_FIX)
    blank = Part(file=artefact.name, number=number, kind="google", type="", body=body, document=document)
    if record := _record(body):
        yield replace(blank, kind="record", type=record, body=None, text=artefact.text)
    elif given:
        yield _google(blank, given)
    elif isinstance(body.get("apiVersion"), str) and isinstance(body.get("kind"), str):
        yield from _objects(blank, body, "")
    elif "blueprint_name" in body or "deployment_groups" in body:
        yield replace(blank, kind="blueprint", type="blueprint")
    elif "vars" in body and set(body) <= DEPLOYMENT_KEYS:
        yield replace(blank, kind="blueprint", type="deployment")
    elif isinstance(body.get("method"), str) and "body" in body:
        inner = replace(blank, body=body["body"], prefix="body", parameters=body.get("parameters"))
        yield _google(inner, str(body["method"]))
    elif method := find_method(artefact.name):
        yield _google(blank, method)
    elif "apiVersion" not in body and (guessed := guess_schema(body)):
        yield replace(blank, type=guessed)
    else:
        raise InputError.one(str(document.root.place), "lint does not know what this is", UNKNOWN_FIX)


def _record(body: dict[str, Plain]) -> str:
    """Which of the files that gpuyard keeps for itself this is; an empty text if it is none."""
    name, _, number = str(body.get("format", "")).rpartition("-")
    return name if name in RECORDS and number.isdigit() else ""


def _google(part: Part, given: str) -> Part:
    """The part as a body of the named schema or method."""
    method, schema = schema_named(given, part.place(""))
    return replace(part, method=method, type=schema)


def _objects(part: Part, body: dict[str, Plain], prefix: str) -> Iterator[Part]:
    """A Kubernetes object, each item of a List, or a Cloud Run service in its Knative form."""
    version, kind = str(body["apiVersion"]), str(body["kind"])
    if kind == "List" and isinstance(items := body.get("items"), list):
        for index, item in enumerate(items):
            if isinstance(item, dict) and isinstance(item.get("apiVersion"), str) and "kind" in item:
                yield from _objects(part, item, f"{prefix}.items[{index}]".strip("."))
        return
    here = replace(part, body=body, prefix=prefix)
    if version in ("serving.knative.dev/v1", "run.googleapis.com/v1") and kind in ("Service", "Job"):
        yield replace(here, type=f"run.v1 {kind}")
    else:
        yield replace(here, kind="kubernetes", type=f"{version} {kind}")
