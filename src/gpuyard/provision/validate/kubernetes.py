"""Validation of Kubernetes objects and custom resources against their schemas and CEL rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuyard.errors import Finding, closest_match
from gpuyard.provision.artefact_document import ArtefactDocument
from gpuyard.provision.schemas.library import KUBERNETES_LIBRARIES, Library, library, library_of
from gpuyard.provision.schemas.schema import Schema
from gpuyard.provision.templates import pod_templates
from gpuyard.provision.validate.schema import schema_error, schema_findings

# API versions whose kinds moved: the API server only reports that it has no such kind.
MOVED = {
    "extensions/v1beta1": "apps/v1 or networking.k8s.io/v1",
    "batch/v1beta1": "batch/v1",
    "autoscaling/v2beta2": "autoscaling/v2",
    "policy/v1beta1": "policy/v1",
    "ray.io/v1alpha1": "ray.io/v1",
    "jobset.x-k8s.io/v1alpha1": "jobset.x-k8s.io/v1alpha2",
}
# Fields that a new version renamed or moved, if the closest name is misleading.
RENAMED = {
    ("kueue.x-k8s.io/v1beta2 ClusterQueue", "spec.admissionChecks"): (
        "write spec.admissionChecksStrategy: {admissionChecks: [{name: ...}]}; "
        "v1beta2 dropped spec.admissionChecks"
    ),
    ("kueue.x-k8s.io/v1beta2 ClusterQueue", "spec.cohort"): (
        "write spec.cohortName; v1beta2 renamed spec.cohort"
    ),
}


def kubernetes_findings(document: ArtefactDocument) -> Iterator[Finding]:
    """Yield what is wrong with an object; a note if no schema of its kind is shipped."""
    schemas = library_of(document.type)
    if schemas is None:
        yield _no_schema(document)
        return
    schema = schemas.schema(schemas.kinds[document.type])
    findings = list(schema_findings(document.body, schema, schemas))
    if _lacks_spec(document, schema, schemas):
        findings.append(schema_error("", '"spec" is missing', "add spec"))
    if schemas.name == "crds":
        # The object's own schema overrides what the pod schema reports about a value.
        own_paths = {finding.where for finding in findings if finding.severity != "note"}
        pod_findings = _pod_findings(document)
        findings += [finding for finding in pod_findings if finding.where not in own_paths]
    for finding in findings:
        fix = finding.fix
        if "no field" in finding.what:
            fix = RENAMED.get((document.type, finding.where), fix)
        yield replace(finding, where=document.where(finding.where), fix=fix)


def _lacks_spec(document: ArtefactDocument, schema: Schema, schemas: Library) -> bool:
    # Schemas of core objects do not require the spec; the API server does.
    spec = (schema.properties or {}).get("spec") if schemas.name == "kubernetes" else None
    is_required = spec is not None and bool(schemas.resolved(spec).required)
    return is_required and not document.root["spec"].is_set


def _pod_findings(document: ArtefactDocument) -> Iterator[Finding]:
    # The schema of a custom resource often accepts more than its pods may contain.
    core = library("kubernetes")
    pod_schema = core.schema("io.k8s.api.core.v1.PodSpec")
    for template, _, _ in pod_templates(document):
        if not template["spec"].is_set:
            continue
        for finding in schema_findings(template["spec"].value, pod_schema, core):
            if "is missing" not in finding.what:  # a controller may set it
                path = f"{template.path}.spec.{finding.where}".rstrip(".")
                yield replace(finding, where=path)


def _no_schema(document: ArtefactDocument) -> Finding:
    version, kind = document.type.rsplit(" ", 1)
    known = [name.split(" ") for books in KUBERNETES_LIBRARIES for name in library(books).kinds]
    versions = [other for other, other_kind in known if other_kind == kind]
    group = version.rpartition("/")[0]
    if versions and (version in MOVED or any(row.rpartition("/")[0] == group for row in versions)):
        return document.root["apiVersion"].finding(
            f"no {kind} in {version}",
            f"use {MOVED.get(version, versions[-1])}",
            rule="schema",
        )
    kinds = [other_kind for other, other_kind in known if other == version]
    if match := closest_match(kind, kinds):
        return document.root["kind"].finding(
            f'unknown kind "{kind}" in {version}',
            f'did you mean "{match}"?',
            rule="schema",
            severity="warning",
        )
    what = f"no schema of {document.type} is shipped: only the invariants were checked"
    return document.root.finding(what, rule="schema", severity="note")
