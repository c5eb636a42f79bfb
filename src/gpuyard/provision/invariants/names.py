"""Rules of names: what the servers accept, and what they put together from them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.part import View
from gpuyard.provision.schemas import library_of
from gpuyard.provision.validate.schema import is_placeholder_name

__all__ = ["names_are_short_and_plain"]

SUBDOMAIN = (r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", "lower-case letters, digits, - and ., at most 253")
LABEL = (r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", "RFC 1035: a lower-case letter, then letters, digits and -, at most 63")
# Google names by the parameter or field that gives them; sources: the API descriptions, gke-node-pool, slurm-gcp.
PARAMETERS = {
    "hypercomputecluster.projects.locations.clusters.create": (
        "clusterId",
        (r"[a-z][a-z0-9]{0,9}", "a lower-case letter, then letters and digits, at most 10"),
    ),
    "run.projects.locations.services.create": (
        "serviceId",
        (r"[a-z]([-a-z0-9]{0,47}[a-z0-9])?", "a lower-case letter, then letters, digits and -, fewer than 50"),
    ),
}
GKE_POOL = (r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", "a lower-case letter, then letters, digits and -, at most 40")
SLURM = (r"[a-z]([-a-z0-9]{0,19})", "a lower-case letter, then letters, digits and -, at most 20")


def names_are_short_and_plain(bundle: Bundle) -> Iterator[Hit]:
    """Names have the form and length that the server asks for."""
    for part in bundle.parts:
        if part.kind == "kubernetes":
            yield from _kubernetes(part.root, part.type)
        elif part.kind == "google":
            if part.type.startswith("compute"):
                yield from _checked(part.root["name"], LABEL)
            key, form = PARAMETERS.get(part.method, ("", LABEL))
            if key:
                yield from _checked(View(part=part, value=part.parameters)[key], form)
        elif part.kind == "blueprint":
            for group in part.root["deployment_groups"].items:
                for module in group["modules"].items:
                    yield from _checked(module.at("settings", "slurm_cluster_name"), SLURM)
    for view in (*bundle.of("NodePool"), *bundle.of("Cluster")):
        yield from _checked(view["name"], GKE_POOL)


def _checked(view: View, form: tuple[str, str]) -> Iterator[Hit]:
    """A name of that form; references of blueprints are left alone."""
    pattern, words = form
    if view.part.kind != "blueprint" and is_placeholder_name(view.text):
        yield Hit(view=view, what=f"the placeholder {view.text} is left", fix="fill it in")
    elif view.text and "$(" not in view.text and not re.fullmatch(pattern, view.text):
        yield Hit(view=view, what=f'"{view.text}" is not a name here: {words}', fix="rename it")


def _kubernetes(root: View, kind: str) -> Iterator[Hit]:
    """Names of objects, and the names that controllers make of them."""
    name = root.at("metadata", "name")
    named = name.is_set or root.at("metadata", "generateName").is_set
    if not named and (root["spec"].is_set or library_of(kind)):  # files of settings have neither name nor spec
        yield Hit(view=root["metadata"], what="the object has no name", fix="add metadata.name")
    is_service = kind in ("v1 Service", "v1 Namespace")
    if kind.startswith(("rbac.", "apiregistration.", "apiextensions.")):
        return  # whose names may hold colons
    yield from _checked(name, LABEL if is_service else SUBDOMAIN)
    if kind.endswith(" JobSet"):
        for job in root.at("spec", "replicatedJobs").items:
            count = int(job["replicas"].number or 1)
            pods = int(job.at("template", "spec", "parallelism").number or 1)
            pod = f"{name.text}-{job['name'].text}-{count - 1}-{pods - 1}-xxxxx"
            if name.text and len(pod) > 63:
                what = f"pods would be called {pod}: {len(pod)} characters, at most 63"
                yield Hit(view=name, what=what, fix="shorten the names of the JobSet and of its jobs")
    elif kind.endswith((" RayCluster", " RayJob", " RayService")) and len(name.text) > 47:
        what = f"{len(name.text)} characters: KubeRay allows 47"
        yield Hit(view=name, what=what, fix="shorten it")
