"""Invariants of boot images and of the settings of Cluster Toolkit nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.validate.blueprint import blueprint_modules, resolved_setting

SOURCE = "Compute Engine: image families; slurm-gcp at 13fd92b6"
IMAGE = re.compile(r"projects/([\w-]+)/global/images/family/([\w-]+)$")
# Names of image families by their project.
FAMILIES = {
    "ubuntu-os-accelerator-images": r"ubuntu-accelerator-\d{4}-(amd64|arm64)-with-nvidia-\d+",
    "ubuntu-os-cloud": r"ubuntu(-minimal|-pro)?-\d{4}(-lts)?(-amd64|-arm64)?",
    "debian-cloud": r"debian-\d+(-arm64)?",
    "rocky-linux-cloud": r"rocky-linux-\d+(-optimized-gcp)?(-nvidia-\w+)?(-arm64)?",
    "rhel-cloud": r"rhel-\d+(-arm64)?",
    "cos-cloud": r"cos(-arm64)?-(stable|beta|dev|\d+-lts)",
    "schedmd-slurm-public": r"slurm-gcp-\d+-\d+-(debian-\d+|hpc-rocky-linux-\d+|rocky-linux-\d+"
    r"|ubuntu-\d{4}-lts)(-nvidia-\d+)?(-arm64)?",
}
MAX_DISTANCE = 3  # of a compact placement policy, in the validation of the nodeset module


@invariant("image-family", applies_to="Instance, InstanceTemplate, blueprint", source=SOURCE)
def image_family_exists(bundle: LintBundle) -> Iterator[Finding]:
    """The image family has the form of the families of its public project."""
    for properties in bundle.of_kind("InstanceProperties"):
        for disk in properties["disks"].items:
            link = disk.at("initializeParams", "sourceImage")
            if match := IMAGE.search(link.text):
                yield from _family(link, match.group(1), match.group(2))
    for document in bundle.documents:
        if document.kind == "blueprint":
            for holder in _images(document.root):
                yield from _family(holder["family"], holder["project"].text, holder["family"].text)


def _images(view: ValueView) -> Iterator[ValueView]:
    if view["family"].text and view["project"].text:
        yield view
    for _, child in view.pairs:
        yield from _images(child)
    for item in view.items:
        yield from _images(item)


def _family(view: ValueView, project: str, family: str) -> Iterator[Finding]:
    pattern = FAMILIES.get(project)
    if pattern and "$(" not in family and not re.fullmatch(pattern, family):
        what = f'{project} has no image family of the form "{family}"'
        yield view.warning(what, f"see `gcloud compute images list --project {project}`")


@invariant("placement-distance", applies_to="blueprint", source="slurm-gcp: nodeset variables")
def placement_distance_is_possible(bundle: LintBundle) -> Iterator[Finding]:
    """placement_max_distance is 1, 2 or 3."""
    for document in bundle.documents:
        for module in blueprint_modules(document) if document.kind == "blueprint" else ():
            value = resolved_setting(module, "placement_max_distance")
            if isinstance(value, int) and not 1 <= value <= MAX_DISTANCE:
                view = module.view.at("settings", "placement_max_distance")
                place = view if view.is_set else module.view
                yield place.error(f"placement_max_distance is {value}", "use 1, 2 or 3")
