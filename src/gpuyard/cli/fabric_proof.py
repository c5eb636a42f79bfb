"""`gpuyard fabric verify FILE` and `gpuyard fabric import FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.app.fabric import Imported, import_files, read_cabling, verify_cabling
from gpuyard.cli.exits import EXIT_DONE, EXIT_INFEASIBLE
from gpuyard.cli.options import add_catalog, add_json, catalog_layers, quantity
from gpuyard.errors import InputError
from gpuyard.fabric import Fabric
from gpuyard.fabric.verify import Finding
from gpuyard.home import write_whole
from gpuyard.report import print_json, print_progress, print_table, print_text
from gpuyard.report.fabric import checks_table, findings_table, listed_findings
from gpuyard.report.fabric_page import fabric_page, topology_page
from gpuyard.topology import Topology, to_json
from gpuyard.units import BITS_PER_S

__all__ = ["add_import", "add_verify", "run_import", "run_verify"]


def add_verify(parser: argparse.ArgumentParser) -> None:
    """The arguments of `verify`."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard fabric verify fabric.json --html fabric.html\n"
        "  gpuyard fabric verify fabric.json --built lldp/\n"
        "exit code 3 if there is an error (with --strict also for a warning)"
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a saved fabric or topology, a CSV of cables, or LLDP")
    parser.add_argument(
        "--built", type=Path, nargs="+", default=[], metavar="PATH", help="verify the fabric over cabling as built"
    )
    parser.add_argument("--checks", action="store_true", help="list every check and what it proves")
    parser.add_argument("--strict", action="store_true", help="take warnings for errors")
    parser.add_argument("--html", type=Path, metavar="PATH", help="write a page with the drawing and the findings")
    parser.add_argument(
        "--speed", type=quantity(BITS_PER_S), metavar="SPEED", help="of links in a table without speeds"
    )
    add_catalog(parser)
    add_json(parser)


def run_verify(arguments: argparse.Namespace) -> int:
    """Prints the findings."""
    subject = read_cabling(arguments.file, arguments.speed)
    built = None
    if arguments.built:
        if not isinstance(subject, Fabric):
            raise InputError.one(str(arguments.file), "is cabling alone", "give the saved fabric, and --built after it")
        built = import_files(arguments.built, subject, arguments.speed).built.topology
    found = verify_cabling(subject, catalog_layers(arguments), print_progress, built, arguments.file.stem)
    if arguments.html:
        title = arguments.file.stem
        if isinstance(subject, Fabric) and built is None:
            page = fabric_page(subject, found, title)
        else:
            page = topology_page(built or _cabling(subject), found, title)
        write_whole(arguments.html, page)
    if arguments.json:
        print_json(found)
    else:
        print_table(findings_table(found))
        if arguments.checks:
            print_table(checks_table(found))
        if arguments.html:
            print_text(f"wrote {arguments.html}")
    return _code(found.findings, arguments.strict)


def _cabling(subject: Fabric | Topology) -> Topology:
    """What is wired."""
    return subject.topology if isinstance(subject, Fabric) else subject


def _code(findings: tuple[Finding, ...], strict: bool) -> int:
    """What the findings come to."""
    bad = ("error", "warning") if strict else ("error",)
    return EXIT_INFEASIBLE if any(finding.severity in bad for finding in findings) else EXIT_DONE


def add_import(parser: argparse.ArgumentParser) -> None:
    """The arguments of `import`."""
    parser.epilog = (
        "reads: a CSV of cables (a_node, a_port, b_node, b_port, speed, length; many other headings too), `lldpctl -f\n"
        "json`, `show lldp neighbors` of Junos and SONiC, `show lldp table` of SONiC; a folder of such files.\n"
        "A report without a prompt is of the device that its file is named after.\n"
        "example:\n  gpuyard fabric import lldp/ --against fabric.json\n"
        "exit code 3 if something is not built as designed"
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="tables and reports, or folders of them")
    parser.add_argument("--against", type=Path, metavar="FILE", help="the design: a saved fabric or topology")
    parser.add_argument("--speed", type=quantity(BITS_PER_S), metavar="SPEED", help="of links whose speed nobody tells")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="save the cabling as a topology (JSON)")
    add_json(parser)


def run_import(arguments: argparse.Namespace) -> int:
    """Prints what differs from the design."""
    against = read_cabling(arguments.against) if arguments.against else None
    found = import_files(arguments.files, against, arguments.speed)
    if arguments.output:
        write_whole(arguments.output, to_json(found.built.topology))
    if arguments.json:
        topology = found.built.topology
        counts = {"nodes": len(topology.nodes), "links": len(topology.links)}
        print_json({**counts, "findings": found.findings})
    else:
        _print(found, arguments)
    return _code(found.findings, strict=False)


def _print(found: Imported, arguments: argparse.Namespace) -> None:
    """What was read, and what differs."""
    topology = found.built.topology
    print_text(f"{len(topology.nodes):,} devices and {len(topology.links):,} links")
    if found.findings:
        print_table(listed_findings(found.findings))
    elif arguments.against:
        print_text("built as designed")
    if arguments.output:
        print_text(f"wrote {arguments.output}")
