"""Every check on a set of files that are deployed together: schemas, CEL rules and invariants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuyard.catalog import Catalog
from gpuyard.document import Plain
from gpuyard.errors import InputError, Problem
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.finding import SEVERITIES, Finding
from gpuyard.provision.invariants import INVARIANTS, Reach, bundle_of, reaches, read_facts
from gpuyard.provision.part import Kind, Part
from gpuyard.provision.recognise import read_parts
from gpuyard.provision.validate.blueprint import blueprint_faults
from gpuyard.provision.validate.google import google_faults
from gpuyard.provision.validate.kubernetes import kubernetes_faults
from gpuyard.provision.validate.records import record_faults
from gpuyard.provision.validate.sbatch import sbatch_faults

__all__ = ["Lint", "Linted", "lint"]

VALIDATORS: dict[Kind, Callable[[Part], Iterator[Finding]]] = {
    "kubernetes": kubernetes_faults,
    "google": google_faults,
    "blueprint": blueprint_faults,
    "sbatch": sbatch_faults,
    "record": record_faults,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Linted:
    """What a document was taken for."""

    file: str
    number: int
    type: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """All that was found, the worst first, and whether each pod gets its GPU fabric."""

    parts: tuple[Linted, ...]
    findings: tuple[Finding, ...]
    fabrics: tuple[Reach, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What will be refused or will not work."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What costs money or speed."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    @property
    def is_sound(self) -> bool:
        """True without an error."""
        return not self.errors


def lint(artefacts: Sequence[Artefact], catalog: Catalog, given: str = "", perhaps: Collection[str] = ()) -> Lint:
    """What is wrong with the files; `given` names the Google schema or method of bodies that do not tell it.

    A file that cannot be read as anything is an InputError that names all such files, except those in `perhaps`:
    they were found in a folder and are left out with a note.
    """
    parts: list[Part] = []
    twice: list[Finding] = []
    problems: list[Problem] = []
    for artefact in artefacts:
        try:
            found, again = read_parts(artefact, given)
        except InputError as error:
            if artefact.name in perhaps:
                first = error.problems[0]
                twice.append(Finding(rule="left-out", severity="note", where=first.where, what=first.what))
            else:
                problems += error.problems
            continue
        parts += found
        twice += again
    if problems:
        raise InputError(problems)
    return _lint(_with_deployments(parts), tuple(twice), catalog)


def _with_deployments(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts with the variables of deployment files given to the blueprints."""
    variables: dict[str, Plain] = {}
    for part in parts:
        if part.type == "deployment":
            variables |= {name: view.value for name, view in part.root["vars"].pairs}
    return tuple(
        replace(part, parameters=variables) if part.type == "blueprint" and variables else part for part in parts
    )


def _lint(parts: tuple[Part, ...], twice: tuple[Finding, ...], catalog: Catalog) -> Lint:
    """What is wrong with parts that are deployed together."""
    bundle = bundle_of(parts, catalog, read_facts())
    by_schema = [finding for part in parts if part.type != "deployment" for finding in VALIDATORS[part.kind](part)]
    by_rule = [finding for invariant in INVARIANTS for finding in invariant.findings(bundle)]
    told = {finding.where for finding in by_rule if finding.rule == "text-values"}
    once = [finding for finding in by_schema if finding.where not in told]  # a rule says it in better words
    findings = [*twice, *once, *by_rule]
    return Lint(
        parts=tuple(Linted(file=part.file, number=part.number, type=part.type, name=part.name) for part in parts),
        findings=tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))),
        fabrics=tuple(reaches(bundle)),
    )
