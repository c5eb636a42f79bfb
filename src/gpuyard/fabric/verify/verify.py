"""Fabric verification: runs every check on cabling, or on a fabric with its configuration."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Finding
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.verify import balancing, cabling, ecn, headroom, numbers, pfc, routes
from gpuyard.fabric.verify.consistency import check_name
from gpuyard.fabric.verify.failures import Progress, ignore_progress
from gpuyard.fabric.verify.finding import Check, Checked, Verification, merged
from gpuyard.fabric.verify.subject import ConfiguredFabric, Subject, subject_of, subject_of_topology
from gpuyard.topology.topology import Topology

CABLING_CHECKS: tuple[Check[Subject], ...] = (*cabling.CHECKS, *routes.CHECKS)
FABRIC_CHECKS: tuple[Check[ConfiguredFabric], ...] = (
    *numbers.CHECKS,
    *pfc.CHECKS,
    *ecn.CHECKS,
    *headroom.CHECKS,
    *balancing.CHECKS,
)


def verify(
    fabric: Fabric,
    catalog: Catalog,
    on_progress: Progress = ignore_progress,
    built: Topology | None = None,
    name: str = "",
) -> Verification:
    """Verify a fabric, or its configuration over the as-built cabling."""
    return check(subject_of(fabric, catalog, on_progress, built), name)


def verify_topology(
    topology: Topology,
    on_progress: Progress = ignore_progress,
    oversubscription_ratio: float = 1.0,
) -> Verification:
    """Verify cabling without a configuration."""
    return check(subject_of_topology(topology, on_progress, oversubscription_ratio))


def check(subject: Subject, name: str = "") -> Verification:
    """Run every check; `name` is what the fabric is called, such as the name of its file."""
    checked: list[Checked] = []
    findings: list[Finding] = []
    results = [row.run(subject) for row in CABLING_CHECKS]
    if subject.configured is not None:
        results += [row.run(subject.configured) for row in FABRIC_CHECKS]
    for record, some in results:
        checked.append(record)
        findings += some
    if subject.configured is None:
        checked += [row.skipped("needs a fabric, not only cabling") for row in FABRIC_CHECKS]
    findings += _name(subject, name)
    return Verification(checks=tuple(checked), findings=merged(findings))


def _name(subject: Subject, name: str) -> Iterator[Finding]:
    servers = sum(node.role == "server" for node in subject.topology.nodes)
    if subject.configured is not None:
        per_server = subject.configured.fabric.demand.gpus_per_server
        yield from check_name(name, servers, servers * per_server)
