"""Lint: every check on files that are deployed together (schemas, CEL rules, invariants)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuyard.catalog.load import Catalog
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import SEVERITIES, Finding, Findings, InputError, Problem
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.artefact_document import ArtefactDocument, Kind
from gpuyard.provision.file_kinds import NotDeployableError, read_documents
from gpuyard.provision.invariants.facts import read_facts
from gpuyard.provision.invariants.gpudirect import FabricAccess, fabric_access
from gpuyard.provision.invariants.lint_bundle import bundle_of
from gpuyard.provision.invariants.rules import INVARIANTS
from gpuyard.provision.validate.blueprint import blueprint_findings
from gpuyard.provision.validate.google import google_findings
from gpuyard.provision.validate.kubernetes import kubernetes_findings
from gpuyard.provision.validate.records import record_findings
from gpuyard.provision.validate.sbatch import sbatch_findings

LEFT_OUT = "left-out"
VALIDATORS: dict[Kind, Callable[[ArtefactDocument], Iterator[Finding]]] = {
    "kubernetes": kubernetes_findings,
    "google": google_findings,
    "blueprint": blueprint_findings,
    "sbatch": sbatch_findings,
    "record": record_findings,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LintedDocument:
    """A document and the type it was recognised as."""

    file: str
    number: int
    type: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult(Findings):
    """All findings, the worst first, and whether each pod reaches its GPU fabric."""

    documents: tuple[LintedDocument, ...]
    findings: tuple[Finding, ...]
    fabrics: tuple[FabricAccess, ...]
    ignored_count: int = 0  # findings that a comment in the file silences


def lint(
    artefacts: Sequence[Artefact],
    catalog: Catalog,
    body_type: str = "",
    optional: Collection[str] = (),
) -> LintResult:
    """Check files that are deployed together.

    Args:
        artefacts: the files.
        catalog: the machine types.
        body_type: Google API schema or method of request bodies that do not name it.
        optional: names of files to skip with a note if they cannot be read.

    Files of an unknown kind are skipped with a note.

    Raises:
        InputError: names all other files that cannot be read.
    """
    documents: list[ArtefactDocument] = []
    findings: list[Finding] = []
    problems: list[Problem] = []
    for artefact in artefacts:
        try:
            parsed, repeated_keys = read_documents(artefact, body_type)
        except InputError as error:
            if artefact.name in optional or isinstance(error, NotDeployableError):
                findings.append(error.problems[0].as_finding(LEFT_OUT, "note"))
            else:
                problems += error.problems
            continue
        documents += parsed
        findings += repeated_keys
    if problems:
        raise InputError(problems)
    return _lint(_with_deployment_variables(documents), findings, catalog)


def _with_deployment_variables(
    documents: Sequence[ArtefactDocument],
) -> tuple[ArtefactDocument, ...]:
    # The variables of deployment files become parameters of the blueprints.
    variables: dict[str, Plain] = {}
    for document in documents:
        if document.type == "deployment":
            variables |= {name: view.value for name, view in document.root["vars"].pairs}
    return tuple(
        replace(document, parameters=variables)
        if document.type == "blueprint" and variables
        else document
        for document in documents
    )


def _lint(
    documents: tuple[ArtefactDocument, ...], findings: list[Finding], catalog: Catalog
) -> LintResult:
    bundle = bundle_of(documents, catalog, read_facts())
    by_schema = [
        finding
        for document in documents
        if document.type != "deployment"
        for finding in VALIDATORS[document.kind](document)
    ]
    by_invariant = [finding for row in INVARIANTS for finding in row.findings(bundle)]
    # Schemas report unquoted values too, in less helpful words.
    unquoted = {finding.where for finding in by_invariant if finding.rule == "text-values"}
    by_schema = [finding for finding in by_schema if finding.where not in unquoted]
    return LintResult(
        documents=tuple(
            LintedDocument(file=row.file, number=row.number, type=row.type, name=row.name)
            for row in documents
        ),
        findings=tuple(
            sorted(
                [*findings, *by_schema, *by_invariant],
                key=lambda finding: SEVERITIES.index(finding.severity),
            )
        ),
        fabrics=tuple(fabric_access(bundle)),
    )
