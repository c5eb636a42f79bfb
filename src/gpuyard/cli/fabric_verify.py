"""`gpuyard fabric verify FILE` and `gpuyard fabric import FILE`."""

from __future__ import annotations

import argparse

from gpuyard.app.fabric import Imported, import_files, read_cabling, verify_cabling
from gpuyard.app.fabric_configs import audit_files, with_audit
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_of
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Finding, InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.home import write_atomic
from gpuyard.report.fabric import checks_table, findings_table, listed_findings
from gpuyard.report.fabric_page import fabric_page, topology_page
from gpuyard.report.terminal import print_json, print_progress, print_table, print_text
from gpuyard.topology.columns import to_json
from gpuyard.topology.topology import Topology


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `verify`."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard fabric verify fabric.json --html fabric.html\n"
        "  gpuyard fabric verify fabric.json --as-built lldp/\n"
        "  gpuyard fabric verify fabric.json --configs backup/\n"
        "exit code 3 if there is an error (with --strict also for a warning)"
    )
    add_option(parser, "FILE", "a saved fabric or topology, a CSV of cables, or LLDP")
    add_option(parser, "--as-built PATH+", "verify the fabric on its as-built cabling", default=[])
    add_option(parser, "--configs PATH+", "also audit the switches' own configurations", default=[])
    add_option(parser, "--checks", "list every check and what it verifies")
    add_option(parser, "--strict", "treat warnings as errors")
    add_option(parser, "--html PATH", "write a page with the drawing and the findings")
    add_option(parser, "--speed SPEED", "default speed of links whose speed is unknown")
    add_catalog(parser)
    add_json(parser)


def run_verify(arguments: argparse.Namespace) -> int:
    """Print the findings."""
    subject = read_cabling(arguments.file, arguments.speed)
    built = None
    if arguments.as_built:
        if not isinstance(subject, Fabric):
            raise InputError.one(
                str(arguments.file),
                "is cabling only",
                "give the saved fabric, and --as-built",
            )
        built = import_files(arguments.as_built, subject, arguments.speed).built.topology
    verification = verify_cabling(
        subject, catalog_of(arguments), print_progress, built, arguments.file.stem
    )
    if arguments.configs:
        if not isinstance(subject, Fabric):
            raise InputError.one(
                str(arguments.file),
                "is cabling only",
                "give the saved fabric, or audit alone: `gpuyard fabric audit`",
            )
        verification = with_audit(verification, audit_files(arguments.configs, subject))
    if arguments.html:
        title = arguments.file.stem
        if isinstance(subject, Fabric) and built is None:
            page = fabric_page(subject, verification, title)
        else:
            page = topology_page(built or _cabling(subject), verification, title)
        write_atomic(arguments.html, page)
    if arguments.json:
        print_json(verification)
    else:
        print_table(findings_table(verification))
        if arguments.checks:
            print_table(checks_table(verification))
        if arguments.html:
            print_text(f"wrote {arguments.html}")
    return _code(verification.findings, arguments.strict)


def _cabling(subject: Fabric | Topology) -> Topology:
    return subject.topology if isinstance(subject, Fabric) else subject


def _code(findings: tuple[Finding, ...], strict: bool) -> int:
    bad = ("error", "warning") if strict else ("error",)
    return EXIT_INFEASIBLE if any(finding.severity in bad for finding in findings) else EXIT_OK


def add_import(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `import`."""
    parser.epilog = (
        "reads: a CSV of cables (a_node, a_port, b_node, b_port, speed, length; many other headings"
        " too), `lldpctl -f\njson`, `show lldp neighbors` of Junos and SONiC, `show lldp table` of"
        " SONiC; a folder of such files.\nA report without a prompt is of the device that its file"
        " is named after.\nexample:\n  gpuyard fabric import lldp/ --against fabric.json\nexit code"
        " 3 if something is not built as designed"
    )
    add_option(parser, "files FILE+", "tables and reports, or folders of them")
    add_option(parser, "--against FILE", "the design: a saved fabric or topology")
    add_option(parser, "--speed SPEED", "default speed of links whose speed is unknown")
    add_option(parser, "-o, --output FILE", "save the cabling as a topology (JSON)")
    add_json(parser)


def run_import(arguments: argparse.Namespace) -> int:
    """Print the differences from the design."""
    against = read_cabling(arguments.against) if arguments.against else None
    imported = import_files(arguments.files, against, arguments.speed)
    if arguments.output:
        write_atomic(arguments.output, to_json(imported.built.topology))
    if arguments.json:
        topology = imported.built.topology
        counts = {"nodes": len(topology.nodes), "links": len(topology.links)}
        print_json({**counts, "findings": imported.findings})
    else:
        _print(imported, arguments)
    return _code(imported.findings, strict=False)


def _print(imported: Imported, arguments: argparse.Namespace) -> None:
    topology = imported.built.topology
    print_text(f"{len(topology.nodes):,} devices and {len(topology.links):,} links")
    if imported.findings:
        print_table(listed_findings(imported.findings))
    elif arguments.against:
        print_text("built as designed")
    if arguments.output:
        print_text(f"wrote {arguments.output}")
