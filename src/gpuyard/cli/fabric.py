"""`gpuyard fabric design|size|render|export|verify|audit|draw|rack-plan|import|headroom`."""

from __future__ import annotations

import argparse

from gpuyard.cli import (
    fabric_audit,
    fabric_design,
    fabric_racks,
    fabric_render,
    fabric_size,
    fabric_verify,
)
from gpuyard.cli.subcommands import Subcommand, add_actions, run_action

ACTIONS = (
    Subcommand(
        name="design",
        summary="design a fabric for N GPUs, a demand file, a workload or a plan",
        add_arguments=fabric_design.add_arguments,
        run=fabric_design.run,
    ),
    Subcommand(
        name="size",
        summary="compute the number of leaves, spines, cores and cables",
        add_arguments=fabric_size.add_size,
        run=fabric_size.run_size,
    ),
    Subcommand(
        name="render",
        summary="render switch and server configurations, cabling and bill of materials",
        add_arguments=fabric_render.add_render,
        run=fabric_render.run_render,
    ),
    Subcommand(
        name="export",
        summary="export to NetBox, Ansible, netlab, containerlab, gNMIc or Prometheus",
        add_arguments=fabric_render.add_export,
        run=fabric_render.run_export,
    ),
    Subcommand(
        name="verify",
        summary="verify that it is non-blocking, lossless, deadlock-free and survives failures",
        add_arguments=fabric_verify.add_verify,
        run=fabric_verify.run_verify,
    ),
    Subcommand(
        name="audit",
        summary="read the switches' own configurations; report drift from the design and mistakes",
        add_arguments=fabric_audit.add_audit,
        run=fabric_audit.run_audit,
    ),
    Subcommand(
        name="draw",
        summary="draw the fabric as an image (.svg) or an interactive page (.html)",
        add_arguments=fabric_render.add_draw,
        run=fabric_render.run_draw,
    ),
    Subcommand(
        name="rack-plan",
        summary="plan racks, cable routes, power and the order with part numbers",
        add_arguments=fabric_racks.add_rack_plan,
        run=fabric_racks.run_rack_plan,
    ),
    Subcommand(
        name="import",
        summary="import as-built cabling (CSV, LLDP) and diff it against the design",
        add_arguments=fabric_verify.add_import,
        run=fabric_verify.run_import,
    ),
    Subcommand(
        name="headroom",
        summary="compute the PFC headroom that a port needs after XOFF",
        add_arguments=fabric_size.add_headroom,
        run=fabric_size.run_headroom,
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's actions, each with its own arguments."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard fabric design --gpus 1024 --switch qfx5240-64od -o fabric.json\n"
        "  gpuyard fabric verify fabric.json --html fabric.html\n"
        "  gpuyard fabric render fabric.json -o configs"
    )
    add_actions(parser, ACTIONS)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    return run_action(arguments)
