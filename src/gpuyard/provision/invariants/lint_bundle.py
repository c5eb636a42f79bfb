"""The documents of one deployment as the invariants see them, and the invariant itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView
from gpuyard.provision.invariants.capacity import Capacity, find_capacities, inner_views
from gpuyard.provision.invariants.facts import Facts, MachineFabric
from gpuyard.provision.invariants.pods import PodTemplate, find_pods


@dataclass(frozen=True, slots=True, kw_only=True)
class LintBundle:
    """Documents deployed together, with their pod templates and machine requests."""

    documents: tuple[ArtefactDocument, ...]
    pods: tuple[PodTemplate, ...]
    capacities: tuple[Capacity, ...]
    machines: tuple[Machine, ...]
    facts: Facts
    catalog: Catalog

    def of_kind(self, *kinds: str) -> Iterator[ValueView]:
        """Yield the objects of these kinds (`NodePool`, `JobSet`, `Network`), also nested ones."""
        for document in self.documents:
            if document.kind == "kubernetes" and document.kind_name in kinds:
                yield document.root
            for kind, view in inner_views(document):
                if kind in kinds:
                    yield view

    def kubernetes(self, group: str, kind: str) -> Iterator[ValueView]:
        """Yield the Kubernetes objects of a kind in an API group, in any version."""
        for document in self.documents:
            in_group = document.kind == "kubernetes" and document.type.startswith(f"{group}/")
            if in_group and document.kind_name == kind:
                yield document.root

    def kubernetes_by_name(self, group: str, kind: str) -> dict[str, ValueView]:
        """Return the Kubernetes objects of a kind in an API group by their names."""
        return {view.at("metadata", "name").text: view for view in self.kubernetes(group, kind)}

    def machine(self, name: str) -> Machine | None:
        """Return the catalog's row of a machine type."""
        return next((machine for machine in self.machines if machine.name == name), None)

    def fabric_of(self, machine_type: ValueView) -> MachineFabric | None:
        """Return the GPU fabric of a machine type, given by name or by resource path."""
        return self.facts.fabric(machine_type.last_segment)


Check = Callable[[LintBundle], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A lint rule beyond the API schemas: what must hold, its source, and the check."""

    name: str
    applies_to: str
    holds: str
    source: str
    check: Check

    def findings(self, bundle: LintBundle) -> Iterator[Finding]:
        """Yield what violates the rule."""
        for finding in self.check(bundle):
            yield replace(finding, rule=self.name)


def invariant(name: str, *, applies_to: str, source: str) -> Callable[[Check], Invariant]:
    """Turn a check into an Invariant; the check's docstring states what must hold."""

    def declare(check: Check) -> Invariant:
        holds = (check.__doc__ or "").strip().removesuffix(".")
        return Invariant(name=name, applies_to=applies_to, holds=holds, source=source, check=check)

    return declare


def bundle_of(
    documents: tuple[ArtefactDocument, ...], catalog: Catalog, facts: Facts
) -> LintBundle:
    """Build the bundle of these documents."""
    machines = tuple(machine for machine in catalog.machines if machine.provider == "google")
    rdma_nics = _rdma_nics_per_claim(documents)
    return LintBundle(
        documents=documents,
        pods=tuple(
            pod
            for document in documents
            if document.kind == "kubernetes"
            for pod in find_pods(document, machines, facts, rdma_nics)
        ),
        capacities=tuple(
            capacity for document in documents for capacity in find_capacities(document)
        ),
        machines=machines,
        facts=facts,
        catalog=catalog,
    )


def _rdma_nics_per_claim(documents: tuple[ArtefactDocument, ...]) -> dict[str, float]:
    # By the name of the resource claim template.
    counts: dict[str, float] = {}
    for document in documents:
        if document.kind_name == "ComputeDomain":
            name = document.root.at("spec", "channel", "resourceClaimTemplate", "name").text
            counts[name] = 0
        elif document.kind_name == "ResourceClaimTemplate":
            requests = document.root.at("spec", "spec", "devices", "requests").items
            counts[document.name] = sum(_rdma_nics_of_request(request) for request in requests)
    return counts


def _rdma_nics_of_request(request: ValueView) -> float:
    device = request["exactly"] if request["exactly"].is_set else request
    if device["deviceClassName"].text != "mrdma.google.com":
        return 0
    return math.inf if device["allocationMode"].text == "All" else device["count"].number or 1
