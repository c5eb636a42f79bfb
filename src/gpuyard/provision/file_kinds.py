"""Recognise what a file is: Kubernetes objects, Google request, blueprint, script, gpuyard file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpuyard.document.frozen_json import Plain, plain_tree
from gpuyard.document.read import read_json, read_yaml_stream
from gpuyard.document.tree import Document
from gpuyard.errors import Finding, InputError, Problem
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.artefact_document import ArtefactDocument
from gpuyard.provision.validate.google import find_method, guess_schema, schema_named
from gpuyard.provision.validate.records import RECORDS
from gpuyard.provision.validate.sbatch import script_document

TEMPLATE = re.compile(r"\{\{|^\s*%\{|\$\{\w+\}", re.MULTILINE)
SCRIPT = re.compile(r"\A#!.*sh\b|^#SBATCH\s", re.MULTILINE)
DEPLOYMENT_KEYS = {"vars", "terraform_backend_defaults", "validation_level", "terraform_providers"}
CLOUD_RUN_VERSIONS = ("serving.knative.dev/v1", "run.googleapis.com/v1")
UNKNOWN_FIX = (
    "name what it is with --as, e.g. --as compute.v1.Instance or --as compute.instances.insert"
)


class NotDeployableError(InputError):
    """A file that holds nothing to deploy, or of a kind that lint does not know."""


def read_documents(
    artefact: Artefact, body_type: str = ""
) -> tuple[tuple[ArtefactDocument, ...], tuple[Finding, ...]]:
    """Return the documents of a file, and findings about repeated keys.

    `body_type` is the Google API schema or method of bodies that do not name it.
    """
    if SCRIPT.search(artefact.text):
        return (script_document(artefact.name, artefact.text),), ()
    sources, repeated = _parse(artefact)
    documents = tuple(
        document
        for number, source in enumerate(sources, start=1)
        for document in _recognise(artefact, source, number, body_type)
    )
    if not documents:
        raise NotDeployableError.one(
            artefact.name,
            "contains no object to deploy",
            "add objects, or leave the file out (a template can render to nothing)",
        )
    findings = (problem.as_finding("twice") for problem in repeated)
    return documents, tuple(
        replace(finding, what=f"{finding.what}: only the last one is used") for finding in findings
    )


def _parse(artefact: Artefact) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
    # JSON is nearly always YAML too, and the YAML reader knows the lines.
    try:
        return read_yaml_stream(artefact.text, artefact.name)
    except InputError:
        if TEMPLATE.search(artefact.text):
            what = "is a template, not a manifest: it contains {{ }} or ${ }"
            fix = "render it first, e.g. `helm template CHART > out.yaml`"
            raise NotDeployableError.one(artefact.name, what, fix) from None
        if artefact.text.lstrip()[:1] not in ("{", "["):
            raise
        return (read_json(artefact.text, artefact.name),), ()


def _recognise(
    artefact: Artefact, source: Document, number: int, body_type: str
) -> Iterator[ArtefactDocument]:
    body = plain_tree(source.root)
    where = str(source.root.location)
    if not isinstance(body, dict):
        raise NotDeployableError.one(where, "not a mapping of keys", UNKNOWN_FIX)
    blank = ArtefactDocument(
        file=artefact.name, number=number, kind="google", type="", body=body, source=source
    )
    if record := _record_name(body):
        yield replace(blank, kind="record", type=record, body=None, text=artefact.text)
    elif body_type:
        yield _google(blank, body_type)
    elif isinstance(body.get("apiVersion"), str) and isinstance(body.get("kind"), str):
        yield from _kubernetes(blank, body, "")
    elif "blueprint_name" in body or "deployment_groups" in body:
        yield replace(blank, kind="blueprint", type="blueprint")
    elif "vars" in body and set(body) <= DEPLOYMENT_KEYS:
        yield replace(blank, kind="blueprint", type="deployment")
    elif isinstance(body.get("method"), str) and "body" in body:
        request = replace(
            blank, body=body["body"], prefix="body", parameters=body.get("parameters")
        )
        yield _google(request, str(body["method"]))
    elif method := find_method(artefact.name):
        yield _google(blank, method)
    elif "apiVersion" not in body and (guess := guess_schema(body)):
        yield replace(blank, type=guess)
    else:
        raise NotDeployableError.one(where, "unknown kind of file: skipped", UNKNOWN_FIX)


def _record_name(body: dict[str, Plain]) -> str:
    name, _, number = str(body.get("format", "")).rpartition("-")
    return name if name in RECORDS and number.isdigit() else ""


def _google(document: ArtefactDocument, body_type: str) -> ArtefactDocument:
    method, schema = schema_named(body_type, document.where(""))
    return replace(document, method=method, type=schema)


def _kubernetes(
    document: ArtefactDocument, body: dict[str, Plain], prefix: str
) -> Iterator[ArtefactDocument]:
    version = str(body["apiVersion"])
    kind = str(body["kind"])
    if kind == "List" and isinstance(items := body.get("items"), list):
        for index, item in enumerate(items):
            if not isinstance(item, dict) or "kind" not in item:
                continue
            if isinstance(item.get("apiVersion"), str):
                yield from _kubernetes(document, item, f"{prefix}.items[{index}]".strip("."))
        return
    here = replace(document, body=body, prefix=prefix)
    if version in CLOUD_RUN_VERSIONS and kind in ("Service", "Job"):
        yield replace(here, type=f"run.v1 {kind}")  # Cloud Run in its Knative form
    else:
        yield replace(here, kind="kubernetes", type=f"{version} {kind}")
