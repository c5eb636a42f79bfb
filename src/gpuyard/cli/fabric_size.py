"""`gpuyard fabric size` and `gpuyard fabric headroom`."""

from __future__ import annotations

import argparse
import typing

from gpuyard.app.fabric import headroom_of_port
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_of, positive_int
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Infeasible
from gpuyard.fabric.size import Sizing, Tiers, size
from gpuyard.report.fabric import size_table
from gpuyard.report.table import Table, table_columns
from gpuyard.report.terminal import print_json, print_result, print_table


def add_size(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `size`."""
    parser.epilog = "example:\n  gpuyard fabric size --nodes 128 --rails 8 --radix 128 --json"
    add_option(parser, "--nodes N", "servers", required=True)
    add_option(parser, "--rails N", "NICs per server (default 8)", default=8)
    add_option(parser, "--radix N", "switch ports at NIC speed", required=True)
    add_option(
        parser,
        "--tiers",
        "tiers of switches (default auto)",
        choices=typing.get_args(Tiers),
        default="auto",
    )
    add_option(parser, "--planes N", "parallel planes (default 1)", default=1)
    add_option(
        parser,
        "--oversubscription R",
        "oversubscription ratio (default 1: non-blocking)",
        type=float,
        default=1.0,
    )
    add_option(
        parser, "--min-spines N", "minimum number of spines (default 4; 1 disables it)", default=4
    )
    add_option(parser, "--spine-radix N", "ports of a spine (default: --radix)")
    add_option(parser, "--core-radix N", "ports of a core switch (default: --radix)")
    add_option(
        parser, "--grow-to N", "final number of servers; the fabric grows to it without recabling"
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
        print_result({"infeasible": counts}, str(counts), as_json=arguments.json)
        return EXIT_INFEASIBLE
    print_result(counts, size_table(counts), as_json=arguments.json)
    return EXIT_OK


def add_headroom(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headroom`."""
    parser.epilog = (
        "example:\n  gpuyard fabric headroom --asic spectrum-4 --speed 400Gbps --cable 40m --json"
    )
    add_option(parser, "--asic NAME", "ASIC or switch of the catalog", required=True)
    add_option(parser, "--speed SPEED", "port speed, such as 400Gbps", required=True)
    add_option(parser, "--cable LENGTH", "cable length, such as 40m", required=True)
    add_option(parser, "--mtu BYTES", "port MTU (default 9216)", type=positive_int, default=9216)
    add_option(
        parser,
        "--small-packets PERCENT",
        "share of 64-byte packets (default 100, the worst case)",
        type=float,
        default=100.0,
    )
    add_option(parser, "--lanes N", "number of lanes, if the speed does not determine it")
    add_option(parser, "--shared-pool", "all ports share one headroom pool")
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
    columns = table_columns("headroom", ">")
    print_table(Table(columns=columns, rows=rows, notes=(f"method: {headroom.method}",)))
    return EXIT_OK
