"""`gpuyard fabric size` and `gpuyard fabric headroom`."""

from __future__ import annotations

import argparse
import typing

from gpuyard.app.fabric import headroom_of_port
from gpuyard.cli.options import add_catalog, add_json, catalog_of, quantity, whole
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Infeasible
from gpuyard.fabric.size import Sizing, Tiers, size
from gpuyard.report.fabric import size_table
from gpuyard.report.table import Table, TableColumn
from gpuyard.report.terminal import print_json, print_table, print_text
from gpuyard.units import BITS_PER_S, LENGTH


def add_size(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `size`."""
    parser.epilog = "example:\n  gpuyard fabric size --nodes 128 --rails 8 --radix 128 --json"
    parser.add_argument("--nodes", type=whole, required=True, metavar="N", help="servers")
    parser.add_argument(
        "--rails", type=whole, default=8, metavar="N", help="NICs per server (default 8)"
    )
    parser.add_argument(
        "--radix",
        type=whole,
        required=True,
        metavar="N",
        help="switch ports at NIC speed",
    )
    parser.add_argument(
        "--tiers", choices=typing.get_args(Tiers), default="auto", help="default auto"
    )
    parser.add_argument(
        "--planes", type=whole, default=1, metavar="N", help="parallel planes (default 1)"
    )
    parser.add_argument(
        "--oversubscription",
        type=float,
        default=1.0,
        metavar="R",
        help="oversubscription ratio (default 1: non-blocking)",
    )
    parser.add_argument(
        "--min-spines",
        type=whole,
        default=4,
        metavar="N",
        help="minimum number of spines (default 4; 1 disables it)",
    )
    parser.add_argument(
        "--spine-radix", type=whole, metavar="N", help="ports of a spine (default: --radix)"
    )
    parser.add_argument(
        "--core-radix", type=whole, metavar="N", help="ports of a core switch (default: --radix)"
    )
    parser.add_argument(
        "--grow-to",
        type=whole,
        metavar="N",
        help="final number of servers; the fabric grows to it without recabling",
    )
    add_json(parser)


def run_size(arguments: argparse.Namespace) -> int:
    """Print the counts."""
    counts = size(
        Sizing(
            nodes=arguments.nodes,
            rails=arguments.rails,
            radix=arguments.radix,
            tiers=arguments.tiers,
            planes=arguments.planes,
            oversubscription_ratio=arguments.oversubscription,
            min_spines=arguments.min_spines,
            spine_radix=arguments.spine_radix,
            core_radix=arguments.core_radix,
            grow_to=arguments.grow_to,
        )
    )
    if isinstance(counts, Infeasible):
        if arguments.json:
            print_json({"infeasible": counts})
        else:
            print_text(str(counts))
        return EXIT_INFEASIBLE
    if arguments.json:
        print_json(counts)
    else:
        print_table(size_table(counts))
    return EXIT_OK


def add_headroom(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headroom`."""
    parser.epilog = (
        "example:\n  gpuyard fabric headroom --asic spectrum-4 --speed 400Gbps --cable 40m --json"
    )
    parser.add_argument(
        "--asic", required=True, metavar="NAME", help="ASIC or switch of the catalog"
    )
    parser.add_argument(
        "--speed", type=quantity(BITS_PER_S), required=True, metavar="SPEED", help="such as 400Gbps"
    )
    parser.add_argument(
        "--cable", type=quantity(LENGTH), required=True, metavar="LENGTH", help="such as 40m"
    )
    parser.add_argument(
        "--mtu", type=whole, default=9216, metavar="BYTES", help="port MTU (default 9216)"
    )
    parser.add_argument(
        "--small-packets",
        type=float,
        default=100.0,
        metavar="PER CENT",
        help="share of 64-byte packets (default 100, the worst case)",
    )
    parser.add_argument(
        "--lanes",
        type=whole,
        metavar="N",
        help="number of lanes, if the speed does not determine it",
    )
    parser.add_argument(
        "--shared-pool", action="store_true", help="all ports share one headroom pool"
    )
    add_catalog(parser)
    add_json(parser)


def run_headroom(arguments: argparse.Namespace) -> int:
    """Print the headroom."""
    headroom = headroom_of_port(
        catalog_of(arguments),
        arguments.asic,
        arguments.speed,
        arguments.cable,
        arguments.mtu,
        arguments.small_packets / 100,
        lanes=arguments.lanes,
        shared_pool=arguments.shared_pool,
    )
    if arguments.json:
        print_json(headroom)
        return EXIT_OK
    rows = (
        ("XOFF headroom: bytes in flight after the pause", f"{headroom.xoff_bytes:,} B"),
        ("XON threshold", f"{headroom.xon_bytes:,} B"),
        ("buffer reserved per port", f"{headroom.size_bytes:,} B"),
    )
    columns = (TableColumn(heading="headroom"), TableColumn(heading="", numeric=True))
    print_table(Table(columns=columns, rows=rows, notes=(f"method: {headroom.method}",)))
    return EXIT_OK
