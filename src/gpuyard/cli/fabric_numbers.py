"""`gpuyard fabric size` and `gpuyard fabric headroom`: numbers for scripts."""

from __future__ import annotations

import argparse
import typing

from gpuyard.app.fabric import headroom_of_port
from gpuyard.cli.exits import EXIT_DONE, EXIT_INFEASIBLE
from gpuyard.cli.options import add_catalog, add_json, catalog_layers, quantity, whole
from gpuyard.errors import Infeasible
from gpuyard.fabric import Sizing, size
from gpuyard.fabric.size import Tiers
from gpuyard.report import Column, Table, print_json, print_table, print_text
from gpuyard.report.fabric import size_table
from gpuyard.units import BITS_PER_S, LENGTH

__all__ = ["add_headroom", "add_size", "run_headroom", "run_size"]


def add_size(parser: argparse.ArgumentParser) -> None:
    """The arguments of `size`."""
    parser.epilog = "example:\n  gpuyard fabric size --nodes 128 --rails 8 --radix 128 --json"
    parser.add_argument("--nodes", type=whole, required=True, metavar="N", help="servers")
    parser.add_argument("--rails", type=whole, default=8, metavar="N", help="NICs of a server (default 8)")
    parser.add_argument("--radix", type=whole, required=True, metavar="N", help="ports of a switch, at a NIC's speed")
    parser.add_argument("--tiers", choices=typing.get_args(Tiers), default="auto", help="default auto")
    parser.add_argument("--planes", type=whole, default=1, metavar="N", help="parallel networks (default 1)")
    parser.add_argument("--oversubscription", type=float, default=1.0, metavar="R", help="default 1: non-blocking")
    parser.add_argument("--min-spines", type=whole, default=4, metavar="N", help="default 4; 1 switches it off")
    parser.add_argument("--spine-radix", type=whole, metavar="N", help="of a chassis spine; default as --radix")
    parser.add_argument("--core-radix", type=whole, metavar="N", help="default as --radix")
    parser.add_argument("--grow-to", type=whole, metavar="N", help="servers later, without moving a cable")
    add_json(parser)


def run_size(arguments: argparse.Namespace) -> int:
    """Prints the counts."""
    found = size(
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
    if isinstance(found, Infeasible):
        print_json({"infeasible": found}) if arguments.json else print_text(str(found))
        return EXIT_INFEASIBLE
    print_json(found) if arguments.json else print_table(size_table(found))
    return EXIT_DONE


def add_headroom(parser: argparse.ArgumentParser) -> None:
    """The arguments of `headroom`."""
    parser.epilog = "example:\n  gpuyard fabric headroom --asic spectrum-4 --speed 400Gbps --cable 40m --json"
    parser.add_argument("--asic", required=True, metavar="NAME", help="a chip of the catalog, or a switch")
    parser.add_argument("--speed", type=quantity(BITS_PER_S), required=True, metavar="SPEED", help="such as 400Gbps")
    parser.add_argument("--cable", type=quantity(LENGTH), required=True, metavar="LENGTH", help="such as 40m")
    parser.add_argument("--mtu", type=whole, default=9216, metavar="BYTES", help="of the port (default 9216)")
    parser.add_argument(
        "--small-packets", type=float, default=100.0, metavar="PER CENT",
        help="share of packets of 64 bytes (default 100, the worst case)",
    )  # fmt: skip
    parser.add_argument("--lanes", type=whole, metavar="N", help="of the port, where its speed does not tell")
    parser.add_argument("--shared-pool", action="store_true", help="headroom of all ports comes from one pool")
    add_catalog(parser)
    add_json(parser)


def run_headroom(arguments: argparse.Namespace) -> int:
    """Prints the headroom."""
    found = headroom_of_port(
        arguments.asic,
        arguments.speed,
        arguments.cable,
        arguments.mtu,
        arguments.small_packets / 100,
        lanes=arguments.lanes,
        shared_pool=arguments.shared_pool,
        layers=catalog_layers(arguments),
    )
    if arguments.json:
        print_json(found)
        return EXIT_DONE
    rows = (
        ("xoff: arrives after the pause", f"{found.xoff_bytes:,} B"),
        ("xon: below this it goes on", f"{found.xon_bytes:,} B"),
        ("size: reserved for the port", f"{found.size_bytes:,} B"),
    )
    columns = (Column(heading="headroom"), Column(heading="", numeric=True))
    print_table(Table(columns=columns, rows=rows, notes=(f"by {found.method}",)))
    return EXIT_DONE
