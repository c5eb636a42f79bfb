"""`gpuyard simulate collective NAME`."""

from __future__ import annotations

import argparse

from gpuyard.cli.options import add_option
from gpuyard.cli.simulate_options import (
    add_faults,
    add_network,
    add_output,
    add_play,
    play_of,
    site_of,
)
from gpuyard.cli.simulate_results import print_simulation, refuse
from gpuyard.errors import Infeasible
from gpuyard.report.terminal import print_progress
from gpuyard.simulate.collectives.simulate_collective import (
    COLLECTIVES,
    Collective,
    simulate_collective,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard simulate collective all-reduce --size 1GB --gpus 256 --switch"
        " qfx5240-64od\n  gpuyard simulate collective all-reduce --size 64MB --topology fat-tree"
        " --hosts 128 --fail spine3@100us\n  gpuyard simulate collective all-to-all --size 256MB"
        " --fabric fabric.json --load-balancing spray --html run.html"
    )
    add_collective(parser)
    add_option(parser, "--size SIZE", "message size as in nccl-tests", required=True)
    add_network(parser)
    add_play(parser)
    add_faults(parser)
    add_output(parser)


def add_collective(parser: argparse.ArgumentParser) -> None:
    """What is sent."""
    add_option(parser, "collective NAME", ", ".join(COLLECTIVES))
    add_option(
        parser,
        "--algorithm NAME",
        "ring, rail-ring, tree, halving, hierarchical, nvls, sharp, direct, pxn (default auto:"
        " the fastest)",
        default="auto",
    )
    add_option(parser, "--channels N", "queue pairs per message (default 1)", default=1)
    add_option(parser, "--chunks N", "pipelined chunks per message")
    add_option(parser, "--ranks N", "use only the first N hosts")


def collective_of(arguments: argparse.Namespace, size_bytes: float) -> Collective:
    """The collective that the flags describe."""
    return Collective(
        name=arguments.collective,
        size_bytes=size_bytes,
        algorithm=arguments.algorithm,
        channels=arguments.channels,
        chunks=arguments.chunks,
        ranks=arguments.ranks,
    )


def run(arguments: argparse.Namespace) -> int:
    """Simulate the collective and print the result."""
    site = site_of(arguments)
    if isinstance(site, Infeasible):
        return refuse(site, arguments)
    collective = collective_of(arguments, arguments.size)
    options = play_of(arguments, site.network)
    return print_simulation(
        simulate_collective(site, collective, options, print_progress), arguments
    )
