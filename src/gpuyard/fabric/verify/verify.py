"""Every check, run: of cabling alone, or of a fabric with its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from gpuyard.catalog import Catalog
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.verify import balancing, cabling, numbers, pausing, routes
from gpuyard.fabric.verify.claims import check_name
from gpuyard.fabric.verify.failures import Progress, quiet
from gpuyard.fabric.verify.finding import Check, Checked, Finding, Verification, together, verdict_of
from gpuyard.fabric.verify.subject import Configured, Subject, subject_of, subject_of_topology
from gpuyard.topology import Topology

__all__ = ["CABLING_CHECKS", "FABRIC_CHECKS", "check", "verify", "verify_topology"]

T = TypeVar("T")

CABLING_CHECKS: tuple[Check[Subject], ...] = (*cabling.CHECKS, *routes.CHECKS)
FABRIC_CHECKS: tuple[Check[Configured], ...] = (*numbers.CHECKS, *pausing.CHECKS, *balancing.CHECKS)


def verify(
    fabric: Fabric, catalog: Catalog, told: Progress = quiet, built: Topology | None = None, name: str = ""
) -> Verification:  # fmt: skip
    """Everything that can be found in a fabric, or in its configuration over the cabling that was built."""
    return check(subject_of(fabric, catalog, told, built), name)


def verify_topology(topology: Topology, told: Progress = quiet, oversubscription_ratio: float = 1.0) -> Verification:
    """Everything that can be found in cabling alone."""
    return check(subject_of_topology(topology, told, oversubscription_ratio))


def check(subject: Subject, name: str = "") -> Verification:
    """Runs the table of checks."""
    ran: list[Checked] = []
    findings: list[Finding] = []
    for row in CABLING_CHECKS:
        findings += _run(row, subject, ran)
    for rule in FABRIC_CHECKS:
        if subject.configured is None:
            ran.append(Checked(name=rule.name, proves=rule.proves, verdict="skipped", finding_count=0,
                               why="needs the fabric, and this is cabling alone"))  # fmt: skip
        else:
            findings += _run(rule, subject.configured, ran)
    findings += _name(subject, name)
    return Verification(checks=tuple(ran), findings=together(findings))


def _run(row: Check[T], subject: T, ran: list[Checked]) -> tuple[Finding, ...]:
    """The findings of one check; what it came to is added to `ran`."""
    found = together(row.find(subject))
    serious = sum(finding.place_count for finding in found if finding.severity != "note")
    ran.append(Checked(name=row.name, proves=row.proves, verdict=verdict_of(found), finding_count=serious))
    return found


def _name(subject: Subject, name: str) -> Iterator[Finding]:
    """The name that the fabric goes by, such as that of its file."""
    servers = sum(node.role == "server" for node in subject.topology.nodes)
    if subject.configured is not None:
        per_server = subject.configured.fabric.demand.gpus_per_server
        yield from check_name(name, servers, servers * per_server)
