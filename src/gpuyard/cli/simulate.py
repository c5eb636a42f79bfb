"""`gpuyard simulate KIND`: each kind is a command with a separate module."""

from __future__ import annotations

import argparse

from gpuyard.cli.commands import SIMULATIONS, load_command
from gpuyard.cli.options import add_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the kind of simulation, and the arguments that it reads itself."""
    rows = "\n".join(f"  {name:<10}  {summary}" for name, summary in SIMULATIONS.items())
    parser.epilog = (
        f"simulations:\n{rows}\n\nexamples:\n  gpuyard simulate collective all-reduce --size 1GB"
        " --gpus 256 --switch qfx5240-64od --html run.html\n  gpuyard simulate traffic"
        " examples/ring.cm --topology fat-tree --hosts 16 --engine packet\n  gpuyard simulate step"
        " examples/pretraining-onprem.yaml\n  gpuyard simulate serving examples/inference.yaml"
        " --html run.html\nsee `gpuyard simulate KIND --help`; every kind supports --json"
    )
    add_option(parser, "what KIND", ", ".join(SIMULATIONS), choices=list(SIMULATIONS))
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="…", help="arguments of the chosen simulation"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the named simulation."""
    kind = arguments.what
    module, parser = load_command(f"simulate {kind}", SIMULATIONS[kind])
    return module.run(parser.parse_args(arguments.words))
