"""`gpuyard simulate traffic FILE`."""

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
from gpuyard.simulate.run_traffic import read_traffic, simulate_traffic


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard simulate traffic examples/ring.cm --topology fat-tree --hosts 16"
        " --link 400Gbps\n  gpuyard simulate traffic perm.cm --topology fat-tree --hosts 128 --link"
        " 400Gbps --mtu 4096 --engine packet --cc none --json\n  gpuyard simulate traffic"
        " algorithm.xml --size 64MB --fabric fabric.json --html run.html\n  gpuyard simulate"
        " traffic traces/step.0.et --topology rails --hosts 64"
    )
    add_option(
        parser,
        "FILE",
        "csg-htsim's connection matrix (.cm), an MSCCL algorithm (.xml), or one of the ranks'"
        " Chakra traces (.et)",
    )
    add_option(parser, "--size SIZE", "message size, for an MSCCL algorithm")
    add_network(parser)
    add_play(parser)
    add_faults(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulates the file's flows; prints what came of them."""
    file = read_traffic(arguments.file, arguments.size)
    site = site_of(arguments, file.host_count)
    if isinstance(site, Infeasible):
        return refuse(site, arguments)
    options = play_of(arguments, site.network)
    return print_simulation(simulate_traffic(site, file, options, print_progress), arguments)
