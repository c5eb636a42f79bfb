"""Invariants between Google requests: links name what the files create, in one zone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gpuyard.errors import Finding, closest_match
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.sources import API
from gpuyard.provision.validate.blueprint import edits

LINK = re.compile(r"(?:^|/)(\w+)/([a-z][\w-]*)$")
ZONAL = re.compile(r"(?:^|/)zones/([a-z0-9-]+)/(\w+)/([a-z][\w-]*)$")
ZONE = re.compile(r"(?:^|/)zones/([a-z0-9-]+)/")
# What a deployment creates for itself; images, machine and disk types are the provider's.
COLLECTIONS = (
    "networks", "subnetworks", "instanceTemplates", "resourcePolicies", "healthChecks",
    "instanceGroupManagers", "backendServices", "addresses",
)  # fmt: skip
MAX_EDITS = 2  # a name with more differences may be a resource that exists elsewhere


@invariant("links-exist", applies_to="Compute Engine requests", source=API)
def links_name_created_resources(bundle: LintBundle) -> Iterator[Finding]:
    """A link whose name is nearly that of a resource in the files names that resource."""
    names = _created(bundle)
    for document in bundle.documents if names else ():
        for view in _texts(document.root):
            match = LINK.search(view.text) if document.method else None
            created = names.get(match.group(1), set()) if match else set()
            if match is None or not created or match.group(2) in created:
                continue
            meant = closest_match(match.group(2), created)
            if meant and edits(meant, match.group(2)) <= MAX_EDITS:
                what = f'nothing in the files creates "{match.group(2)}" of {match.group(1)}'
                yield view.error(what, f'use "{meant}"')


@invariant("one-zone", applies_to="Compute Engine requests", source=API)
def requests_are_in_one_zone(bundle: LintBundle) -> Iterator[Finding]:
    """A zonal request and the zonal resources that it names are in one zone."""
    zones: dict[str, list[ValueView]] = defaultdict(list)
    for document in _requests(bundle):
        zone = document.request_parameters["zone"]
        if not zone.text:
            continue
        zones[zone.text].append(zone)
        for view in _texts(document.root):
            match = ZONE.search(view.text)
            if match and match.group(1) != zone.text:
                what = f"the request is in {zone.text}, and this is in {match.group(1)}"
                yield view.error(what, f"use one zone: {zone.text} or {match.group(1)}")
                break
    yield from _other_zones(bundle)
    profiles = [view for view in bundle.of_kind("Network") if view["networkProfile"].text]
    for zone_name, places in zones.items():
        for network in profiles:
            profile = network["networkProfile"]
            if not profile.last_segment.startswith(f"{zone_name}-"):
                what = f"the machines are in {zone_name}, and this profile is of another zone"
                yield profile.error(what, f"use one zone for {places[0].document.file} and this")


def _other_zones(bundle: LintBundle) -> Iterator[Finding]:
    # A link to a zonal resource whose own request is in another zone.
    zones = {
        (document.method.split(".")[-2], document.name): document.request_parameters["zone"].text
        for document in _requests(bundle)
        if document.request_parameters["zone"].text
    }
    for document in _requests(bundle):
        for view in _texts(document.root):
            match = ZONAL.search(view.text)
            zone = zones.get((match.group(2), match.group(3))) if match else None
            if match and zone and zone != match.group(1):
                what = f"{match.group(3)} is created in {zone}, and named here in {match.group(1)}"
                yield view.error(what, f"use one zone: {zone} or {match.group(1)}")


def _requests(bundle: LintBundle) -> Iterator[ArtefactDocument]:
    return (row for row in bundle.documents if row.method.startswith("compute."))


def _created(bundle: LintBundle) -> dict[str, set[str]]:
    names: dict[str, set[str]] = defaultdict(set)
    for document in _requests(bundle):
        collection = document.method.split(".")[-2]
        plain = collection.removeprefix("region").removeprefix("global")
        collection = plain[:1].lower() + plain[1:]
        if collection in COLLECTIONS and document.name:
            names[collection].add(document.name)
    return names


def _texts(view: ValueView) -> Iterator[ValueView]:
    if view.text:
        yield view
    for item in view.items:
        yield from _texts(item)
    for _, child in view.pairs:
        yield from _texts(child)
