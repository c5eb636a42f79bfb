"""Invariant of names: what the servers accept, and what controllers derive from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.sources import API
from gpuyard.provision.schemas.library import library_of
from gpuyard.provision.validate.schema import is_placeholder_name

POD_NAME_LENGTH = 63
RAY_NAME_LENGTH = 47
# Kinds whose names may contain colons.
FREE_NAMES = ("rbac.", "apiregistration.", "apiextensions.")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFormat:
    """The format of a name, as a pattern and in words."""

    pattern: str
    words: str


SUBDOMAIN = NameFormat(
    pattern=r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?",
    words="lower-case letters, digits, - and ., at most 253",
)
LABEL = NameFormat(
    pattern=r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?",
    words="RFC 1035: a lower-case letter, then letters, digits and -, at most 63",
)
GKE_POOL = NameFormat(
    pattern=r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?",
    words="a lower-case letter, then letters, digits and -, at most 40",
)
SLURM = NameFormat(
    pattern=r"[a-z]([-a-z0-9]{0,19})",
    words="a lower-case letter, then letters, digits and -, at most 20",
)
# Names in request parameters, by method. Sources: API descriptions, gke-node-pool, slurm-gcp.
PARAMETERS = {
    "hypercomputecluster.projects.locations.clusters.create": (
        "clusterId",
        NameFormat(
            pattern=r"[a-z][a-z0-9]{0,9}",
            words="a lower-case letter, then letters and digits, at most 10",
        ),
    ),
    "run.projects.locations.services.create": (
        "serviceId",
        NameFormat(
            pattern=r"[a-z]([-a-z0-9]{0,47}[a-z0-9])?",
            words="a lower-case letter, then letters, digits and -, fewer than 50",
        ),
    ),
}


@invariant(
    "names",
    applies_to="everything with a name",
    source=f"{API}; slurm-gcp, gke-node-pool variables",
)
def names_are_valid(bundle: LintBundle) -> Iterator[Finding]:
    """Names have the format and length that the server accepts."""
    for document in bundle.documents:
        if document.kind == "kubernetes":
            yield from _kubernetes(document)
        elif document.kind == "google":
            if document.type.startswith("compute"):
                yield from _check_name(document.root["name"], LABEL)
            if document.method in PARAMETERS:
                key, name_format = PARAMETERS[document.method]
                yield from _check_name(document.request_parameters[key], name_format)
        elif document.kind == "blueprint":
            for group in document.root["deployment_groups"].items:
                for module in group["modules"].items:
                    yield from _check_name(module.at("settings", "slurm_cluster_name"), SLURM)
    for view in (*bundle.of_kind("NodePool"), *bundle.of_kind("Cluster")):
        yield from _check_name(view["name"], GKE_POOL)


def _check_name(view: ValueView, name_format: NameFormat) -> Iterator[Finding]:
    is_reference = "$(" in view.text
    if view.document.kind != "blueprint" and is_placeholder_name(view.text):
        yield view.error(f"placeholder {view.text} is not filled in", "fill it in")
    elif view.text and not is_reference and not re.fullmatch(name_format.pattern, view.text):
        yield view.error(f'"{view.text}" is not a valid name: {name_format.words}', "rename it")


def _kubernetes(document: ArtefactDocument) -> Iterator[Finding]:
    root = document.root
    name = root.at("metadata", "name")
    has_name = name.is_set or root.at("metadata", "generateName").is_set
    # Configuration files of components have a kind, but neither name nor spec.
    if not has_name and (root["spec"].is_set or library_of(document.type)):
        yield root["metadata"].error("the object has no name", "add metadata.name")
    if document.type.startswith(FREE_NAMES):
        return
    is_label = document.type in ("v1 Service", "v1 Namespace")
    yield from _check_name(name, LABEL if is_label else SUBDOMAIN)
    if document.kind_name == "JobSet" and name.text:
        yield from _jobset_pods(name, root.at("spec", "replicatedJobs").items)
    is_ray = document.kind_name in ("RayCluster", "RayJob", "RayService")
    if is_ray and len(name.text) > RAY_NAME_LENGTH:
        what = f"{len(name.text)} characters; KubeRay allows {RAY_NAME_LENGTH}"
        yield name.error(what, "shorten it")


def _jobset_pods(name: ValueView, jobs: tuple[ValueView, ...]) -> Iterator[Finding]:
    for job in jobs:
        last_job = int(job["replicas"].number or 1) - 1
        last_pod = int(job.at("template", "spec", "parallelism").number or 1) - 1
        pod = f"{name.text}-{job['name'].text}-{last_job}-{last_pod}-xxxxx"
        if len(pod) > POD_NAME_LENGTH:
            yield name.error(
                f"the pod name {pod} has {len(pod)} characters, more than {POD_NAME_LENGTH}",
                "shorten the names of the JobSet and of its jobs",
            )
