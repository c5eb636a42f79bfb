"""Kubernetes objects: core kinds and custom resources against their schemas and CEL rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuyard.errors import nearest
from gpuyard.provision.finding import Finding
from gpuyard.provision.part import Part
from gpuyard.provision.schemas import KUBERNETES_LIBRARIES, Library, Schema, library, library_of
from gpuyard.provision.templates import pod_templates
from gpuyard.provision.validate.schema import Fault, faults

__all__ = ["kubernetes_faults"]

# Kinds that moved: what the API server says of the old version is only that it has no such kind.
MOVED = {
    "extensions/v1beta1": "apps/v1 or networking.k8s.io/v1",
    "batch/v1beta1": "batch/v1",
    "autoscaling/v2beta2": "autoscaling/v2",
    "policy/v1beta1": "policy/v1",
    "ray.io/v1alpha1": "ray.io/v1",
    "jobset.x-k8s.io/v1alpha1": "jobset.x-k8s.io/v1alpha2",
}
# Fields that a new version renamed or moved, where the nearest name misleads.
RENAMED = {
    ("kueue.x-k8s.io/v1beta2 ClusterQueue", "spec.admissionChecks"): "write spec.admissionChecksStrategy: "
    "{admissionChecks: [{name: ...}]}; v1beta2 has dropped spec.admissionChecks",
    ("kueue.x-k8s.io/v1beta2 ClusterQueue", "spec.cohort"): "write spec.cohortName; v1beta2 has renamed spec.cohort",
}


def kubernetes_faults(part: Part) -> Iterator[Finding]:
    """What is wrong with an object by its schema; a note where no schema of its kind is shipped."""
    books = library_of(part.type)
    if books is None:
        yield _without_schema(part)
        return
    schema = books.schema(books.kinds[part.type])
    found = {fault.path: fault for fault in _pod_faults(part)} if books.name == "crds" else {}
    found |= {fault.path: fault for fault in _spec_faults(part, schema, books)}
    found |= {fault.path: fault for fault in faults(part.body, schema, books)}
    for fault in found.values():
        fix = RENAMED.get((part.type, fault.path), fault.fix) if "no field" in fault.what else fault.fix
        where = part.place(fault.path)
        yield Finding(rule="schema", severity=fault.severity, where=where, what=fault.what, fix=fix)


def _spec_faults(part: Part, schema: Schema, books: Library) -> Iterator[Fault]:
    """A core object without the spec that it is for: its schema does not ask for it, the server does."""
    spec = (schema.properties or {}).get("spec") if books.name == "kubernetes" else None
    if spec is not None and books.resolved(spec).required and not part.root["spec"].is_set:
        yield Fault(path="", what='"spec" is missing', fix="add spec")


def _pod_faults(part: Part) -> Iterator[Fault]:
    """Pods inside a custom resource by the schema of pods: the resource's own accepts more than its pods may hold."""
    core = library("kubernetes")
    for template, _, _ in pod_templates(part):
        if not template["spec"].is_set:
            continue
        for fault in faults(template["spec"].value, core.schema("io.k8s.api.core.v1.PodSpec"), core):
            if "is missing" not in fault.what:  # a controller may fill it in
                yield replace(fault, path=f"{template.path}.spec.{fault.path}".rstrip("."))


def _without_schema(part: Part) -> Finding:
    """An object of a kind that we hold no schema of; an error where its version is surely wrong."""
    version, kind = part.type.rsplit(" ", 1)
    known = [name for library_name in KUBERNETES_LIBRARIES for name in library(library_name).kinds]
    same = [name for name in known if name.split(" ")[1] == kind]
    group = version.rpartition("/")[0]
    if same and (version in MOVED or any(name.rpartition("/")[0] == group for name in same)):
        fix = f"use {MOVED.get(version, same[-1].split(' ')[0])}"
        return Finding(
            rule="schema", severity="error", where=part.place("apiVersion"), what=f"no {kind} in {version}", fix=fix
        )
    in_group = [name for name in known if name.split(" ")[0] == version]
    if in_group and (meant := nearest(kind, [name.split(" ")[1] for name in in_group])):
        what = f'{version} has no kind "{kind}" that we know'
        return Finding(
            rule="schema", severity="warning", where=part.place("kind"), what=what, fix=f'did you mean "{meant}"?'
        )
    what = f"no schema of {part.type} is shipped: only the rules below were checked"
    return Finding(rule="schema", severity="note", where=part.place(""), what=what)
