"""`gpuyard fabric design|size|render|verify|draw|import|headroom`."""

from __future__ import annotations

import argparse

from gpuyard.cli import fabric_design, fabric_files, fabric_numbers, fabric_proof
from gpuyard.cli.actions import Action, add_actions, run_action

__all__ = ["ACTIONS", "add_arguments", "run"]


ACTIONS = (
    Action(name="design", summary="from a number of GPUs, a demand, a workload or a plan to a fabric",
           add_arguments=fabric_design.add_arguments, run=fabric_design.run),
    Action(name="size", summary="how many leaves, spines, cores and cables",
           add_arguments=fabric_numbers.add_size, run=fabric_numbers.run_size),
    Action(name="render", summary="write the configuration of every switch and server, cabling and materials",
           add_arguments=fabric_files.add_render, run=fabric_files.run_render),
    Action(name="verify", summary="prove that it is non-blocking, lossless, free of deadlock and survives failures",
           add_arguments=fabric_proof.add_verify, run=fabric_proof.run_verify),
    Action(name="draw", summary="draw it: a picture (.svg) or a page to look around in (.html)",
           add_arguments=fabric_files.add_draw, run=fabric_files.run_draw),
    Action(name="import", summary="read cabling as built (CSV, LLDP) and compare it with the design",
           add_arguments=fabric_proof.add_import, run=fabric_proof.run_import),
    Action(name="headroom", summary="buffer that a port needs after it has said stop",
           add_arguments=fabric_numbers.add_headroom, run=fabric_numbers.run_headroom),
)  # fmt: skip


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
    """Runs the action that was named."""
    return run_action(arguments)
