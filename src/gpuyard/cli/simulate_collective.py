"""`gpuyard simulate collective NAME`."""

from __future__ import annotations

import argparse

from gpuyard.app.collectives import COLLECTIVES, Collective, simulate_collective
from gpuyard.cli.options import quantity, whole
from gpuyard.cli.simulate_options import add_faults, add_network, add_output, add_play, play_of, site_of
from gpuyard.cli.simulate_results import refuse, tell
from gpuyard.errors import Infeasible
from gpuyard.units import BYTES

__all__ = ["add_arguments", "add_collective", "collective_of", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard simulate collective all-reduce --size 1GB --gpus 256 --switch qfx5240-64od\n"
        "  gpuyard simulate collective all-reduce --size 64MB --topology fat-tree --hosts 128 --fail spine3@100us\n"
        "  gpuyard simulate collective all-to-all --size 256MB --fabric fabric.json --balancing spray --html run.html"
    )
    add_collective(parser)
    parser.add_argument("--size", type=quantity(BYTES), required=True, metavar="SIZE", help="as nccl-tests counts it")
    add_network(parser)
    add_play(parser)
    add_faults(parser)
    add_output(parser)


def add_collective(parser: argparse.ArgumentParser) -> None:
    """What is sent."""
    parser.add_argument("collective", metavar="NAME", help=", ".join(COLLECTIVES))
    parser.add_argument(
        "--algorithm", default="auto", metavar="NAME",
        help="ring, rail-ring, tree, halving, hierarchical, nvls, direct, pxn (default auto: the fastest by flows)",
    )  # fmt: skip
    parser.add_argument("--channels", type=whole, default=1, metavar="N", help="queue pairs of a message (default 1)")
    parser.add_argument("--parts", type=whole, metavar="N", help="that follow each other through trees and levels")
    parser.add_argument("--ranks", type=whole, metavar="N", help="only the first so many hosts take part")


def collective_of(arguments: argparse.Namespace, size_bytes: float) -> Collective:
    """The flags as a value."""
    return Collective(
        name=arguments.collective, size_bytes=size_bytes, algorithm=arguments.algorithm,
        channels=arguments.channels, parts=arguments.parts, ranks=arguments.ranks,
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Simulates the collective; prints what came of it."""
    site = site_of(arguments)
    if isinstance(site, Infeasible):
        return refuse(site, arguments)
    asked = collective_of(arguments, arguments.size)
    return tell(simulate_collective(site, asked, play_of(arguments, site.network)), arguments)
