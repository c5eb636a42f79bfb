"""All the parts of one deployment as the rules see them, and what a rule says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Machine
from gpuyard.provision.finding import Finding, Severity
from gpuyard.provision.invariants.capacity import Capacity, find_capacities, inner_views
from gpuyard.provision.invariants.facts import Facts
from gpuyard.provision.invariants.pods import Pod, find_pods
from gpuyard.provision.part import Part, View

__all__ = ["Bundle", "Hit", "Invariant", "bundle_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The parts that are deployed together, with the pods and the requests for machines found in them."""

    parts: tuple[Part, ...]
    pods: tuple[Pod, ...]
    capacities: tuple[Capacity, ...]
    machines: tuple[Machine, ...]
    facts: Facts

    def of(self, *kinds: str) -> Iterator[View]:
        """Objects by their kind alone (`NodePool`, `JobSet`, `Network`): the views of their roots."""
        for part in self.parts:
            if part.kind == "kubernetes" and part.type.rsplit(" ", 1)[1] in kinds:
                yield part.root
            for kind, view in inner_views(part):
                if kind in kinds:
                    yield view

    def kubernetes(self, group: str, kind: str) -> Iterator[View]:
        """Kubernetes objects of an API group, whatever their version."""
        for part in self.parts:
            if part.kind == "kubernetes" and part.type.startswith(f"{group}/") and part.type.endswith(f" {kind}"):
                yield part.root

    def machine(self, name: str) -> Machine | None:
        """The catalog's row of a machine type."""
        return next((machine for machine in self.machines if machine.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """What a rule found at a place."""

    view: View
    what: str
    fix: str
    severity: Severity = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A rule that no schema knows: its name, what it looks at, what must hold, where that is written, and the check."""

    name: str
    applies_to: str
    holds: str
    source: str
    find: Callable[[Bundle], Iterator[Hit]]

    def findings(self, bundle: Bundle) -> Iterator[Finding]:
        """What breaks the rule."""
        for hit in self.find(bundle):
            yield Finding(rule=self.name, severity=hit.severity, where=hit.view.where, what=hit.what, fix=hit.fix)


def bundle_of(parts: tuple[Part, ...], catalog: Catalog, facts: Facts) -> Bundle:
    """The bundle of these parts."""
    machines = tuple(machine for machine in catalog.machines if machine.provider == "google")
    claims = _claims(parts)
    return Bundle(
        parts=parts,
        pods=tuple(
            pod for part in parts if part.kind == "kubernetes" for pod in find_pods(part, machines, facts, claims)
        ),
        capacities=tuple(capacity for part in parts for capacity in find_capacities(part)),
        machines=machines,
        facts=facts,
    )


def _claims(parts: tuple[Part, ...]) -> dict[str, float]:
    """Templates of resource claims with the RDMA NICs that a claim of each takes."""
    found: dict[str, float] = {}
    for part in parts:
        if part.type.endswith(" ComputeDomain"):
            found[part.root.at("spec", "channel", "resourceClaimTemplate", "name").text] = 0
        if part.type.endswith(" ResourceClaimTemplate"):
            requests = [
                request["exactly"] if request["exactly"].is_set else request
                for request in part.root.at("spec", "spec", "devices", "requests").items
            ]
            found[part.name] = sum(
                math.inf if request["allocationMode"].text == "All" else request["count"].number or 1
                for request in requests
                if request["deviceClassName"].text == "mrdma.google.com"
            )
    return found
