"""A fabric as tables: facts, size, findings, checks."""

from __future__ import annotations

from collections.abc import Iterable

from gpuyard.errors import Finding
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.size import Size
from gpuyard.fabric.verify.finding import Verification
from gpuyard.report.table import NOT_KNOWN, Table, table_columns
from gpuyard.units import BITS_PER_S, show


def facts_table(fabric: Fabric) -> Table:
    """The fabric in a few lines."""
    demand, size = fabric.demand, fabric.size
    rows = [
        ("GPUs", f"{size.gpus:,} in {demand.server_count:,} servers, {demand.rails} NICs each"),
        *(("attached", f"{hosts.count:,} × {hosts.name}") for hosts in demand.attached),
        ("shape", _shape(fabric)),
        ("leaves", f"{size.leaves:,} × {demand.leaf}"),
    ]
    if size.spines:
        rows.append(("spines", f"{size.spines:,} × {demand.spine}"))
    if size.cores:
        rows.append(("cores", f"{size.cores:,} × {demand.core}"))
    rows.append(
        (
            "server links",
            f"{size.node_leaf_cables:,} cables of {show(demand.nic_bits_per_s, BITS_PER_S)}",
        )
    )
    if size.spines:
        rows += [
            (
                "leaf to spine",
                f"{size.leaf_spine_cables:,} cables, {size.uplinks_per_leaf} per leaf",
            ),
            (
                "oversubscription",
                f"{size.oversubscription_ratio:.3g}:1" if size.spines else "no uplinks",
            ),
        ]
    if size.cores:
        rows.append(("spine to core", f"{size.spine_core_cables:,} cables"))
    rows += [
        ("system", demand.os or demand.technology),
        ("addresses", _addresses(fabric)),
        (
            "lossless",
            (
                f"{fabric.lossless.transport}, {fabric.lossless.qos.name},"
                f" {fabric.lossless.balancing.mode}"
            ),
        ),
    ]
    return Table(columns=table_columns("fabric", ""), rows=tuple(rows))


def _shape(fabric: Fabric) -> str:
    size = fabric.size
    words: list[str] = [fabric.demand.shape]
    if size.planes > 1:
        words.append(f"{size.planes} planes")
    if size.pods > 1:
        words.append(f"{size.pods} pods")
    words.append(
        f"{size.stripes} stripe{'s' if size.stripes > 1 else ''} of {size.servers_per_stripe}"
        " servers"
    )
    return ", ".join(words)


def _addresses(fabric: Fabric) -> str:
    if fabric.routing.protocol != "ebgp":
        return "by the subnet manager"
    kind = "unnumbered (IPv6 link-local)" if fabric.routing.unnumbered else "IPv4 /31"
    tenants = f", {len(fabric.vrfs)} tenants over EVPN" if fabric.vrfs else ""
    return f"eBGP, one AS per switch, {kind}{tenants}"


def size_table(size: Size) -> Table:
    """Switch and cable counts."""
    rows = (
        ("leaves", size.leaves),
        ("spines", size.spines),
        ("cores", size.cores),
        ("node–leaf cables", size.node_leaf_cables),
        ("leaf–spine cables", size.leaf_spine_cables),
        ("spine–core cables", size.spine_core_cables),
        ("GPUs", size.gpus),
        ("uplinks per leaf", size.uplinks_per_leaf),
        ("stripes", size.stripes),
        ("servers per stripe", size.servers_per_stripe),
        ("links per leaf and spine", size.links_per_pair),
    )
    return Table(
        columns=table_columns("size", ">"),
        rows=(
            *((name, f"{value:,}") for name, value in rows),
            ("oversubscription", f"{size.oversubscription_ratio:g}"),
        ),
        notes=(f"these switches reach {size.most_nodes:,} servers in {size.tiers} tiers",),
    )


def findings_table(verification: Verification) -> Table:
    """Findings, worst first."""
    return listed_findings(verification.findings, _summary(verification))


def listed_findings(findings: Iterable[Finding], summary: str = "") -> Table:
    """One finding per row."""
    rows = tuple(
        (
            finding.severity,
            finding.rule,
            finding.where
            + (f" and {finding.place_count - 1:,} more" if finding.place_count > 1 else ""),
            finding.what,
            finding.fix or NOT_KNOWN,
        )
        for finding in findings
    )
    headings = ("severity", "check", "where", "what", "fix")
    return Table(
        columns=table_columns(*headings),
        rows=rows,
        notes=(summary,) if summary else (),
    )


def _summary(verification: Verification) -> str:
    verdicts = [row.verdict for row in verification.checks]
    skipped = f", {verdicts.count('skipped')} skipped" if "skipped" in verdicts else ""
    return (
        f"{len(verdicts)} checks: {verdicts.count('passed')} passed, {verdicts.count('failed')}"
        f" failed{skipped}; {len(verification.errors)} errors, {len(verification.warnings)}"
        " warnings"
    )


def checks_table(verification: Verification) -> Table:
    """Every check and what it verifies."""
    rows = tuple((row.verdict, row.name, row.verifies, row.why) for row in verification.checks)
    return Table(
        columns=table_columns("", "check", "verifies", ""),
        rows=rows,
    )
