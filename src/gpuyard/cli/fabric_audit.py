"""`gpuyard fabric audit PATH+`."""

from __future__ import annotations

import argparse

from gpuyard.app.fabric import read_fabric
from gpuyard.app.fabric_configs import audit_files
from gpuyard.cli.options import add_json, add_option
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK
from gpuyard.report.fabric import listed_findings
from gpuyard.report.fabric_audit import audited_table
from gpuyard.report.terminal import print_json, print_table, print_text


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `audit`."""
    parser.epilog = (
        "reads Junos (curly and set), SONiC config_db.json with frr.conf, NVUE YAML, Arista EOS,"
        " Cisco NX-OS and FRR;\nfolders are searched. A statement is verified, known, or listed as"
        " not understood."
        "\nexamples:\n"
        "  gpuyard fabric audit backup/ --against fabric.json\n"
        "  gpuyard fabric audit leaf1.conf leaf2.conf spine1.conf --unread\n"
        "exit code 3 if there is an error (with --strict also for a warning)"
    )
    add_option(parser, "configs PATH+", "configurations of switches, or folders of them")
    add_option(parser, "--against FILE", "the design: a fabric saved by `gpuyard fabric design`")
    add_option(parser, "--state PATH+", "running state: `show … | json` or gNMI dumps", default=[])
    add_option(parser, "--unread", "list the statements that are not understood")
    add_option(parser, "--strict", "treat warnings as errors")
    add_json(parser)


def run_audit(arguments: argparse.Namespace) -> int:
    """Print what was read, and the findings."""
    fabric = read_fabric(arguments.against) if arguments.against else None
    audit = audit_files(arguments.configs, fabric, arguments.state)
    if arguments.json:
        print_json(audit)
    else:
        print_table(audited_table(audit))
        if audit.findings:
            print_table(listed_findings(audit.findings))
        else:
            print_text("as designed" if fabric else _agreement(len(audit.devices)))
        if arguments.unread:
            for device in audit.devices:
                for line in device.unread:
                    print_text(line)
    bad = bool(audit.errors) or (arguments.strict and bool(audit.warnings))
    return EXIT_INFEASIBLE if bad else EXIT_OK


def _agreement(device_count: int) -> str:
    if device_count == 1:
        return (
            "consistent in itself; its links and sessions are not verified: add the configurations"
            " of its neighbours, or --against FILE"
        )
    return "the configurations agree with each other"
