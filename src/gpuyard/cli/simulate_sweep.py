"""`gpuyard simulate sweep NAME|FILE`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuyard.app.networks import open_network
from gpuyard.app.sweep import SweepOptions, hosts_of, simulate_sweep
from gpuyard.cli.options import (
    add_catalog,
    add_json,
    add_option,
    catalog_layers,
    positive_int,
    quantity,
)
from gpuyard.cli.simulate_options import BALANCES
from gpuyard.errors import EXIT_OK, InputError
from gpuyard.home import write_atomic
from gpuyard.measure.host import cores_count
from gpuyard.report.simulation_sweep import sweep_csv, sweep_page, sweep_table
from gpuyard.report.terminal import print_json, print_progress, print_table, print_text
from gpuyard.simulate.collectives.simulate_collective import Collective
from gpuyard.simulate.run_traffic import SimulationOptions
from gpuyard.simulate.sites.named_topologies import NetworkOptions
from gpuyard.simulate.sweep import Axes
from gpuyard.units import BYTES

MOST_RUNS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "lists are separated by commas; every combination is simulated\n\nexamples:\n  gpuyard"
        " simulate sweep all-reduce --size 1MB,64MB --topology fat-tree --hosts 16,128 --seeds"
        " 1-4\n  gpuyard simulate sweep perm.cm --topology fat-tree --hosts 128 --load-balancing"
        " ecmp,spray --seeds 1-10 --csv out.csv\n  gpuyard simulate sweep all-to-all --size 64MB"
        " --fabric a.json --fabric b.json --html sweep.html --on ray"
    )
    add_option(parser, "what NAME|FILE", "a collective, or a traffic file (.cm, .xml)")
    add_option(
        parser,
        "--size SIZES",
        "message sizes, such as 1MB,64MB,1GB",
        type=_list(quantity(BYTES)),
        default=(None,),
    )
    add_option(
        parser,
        "--seeds SEEDS",
        "random seeds, as 1-8 or 1,5,9 (default 1)",
        type=_seeds,
        default=(1,),
    )
    add_option(
        parser, "--algorithm NAMES", "algorithms (default auto)", type=_list(str), default=("auto",)
    )
    add_option(
        parser,
        "--channels COUNTS",
        "queue pairs per message (default 1)",
        type=_list(positive_int),
        default=(1,),
    )
    add_option(
        parser, "--load-balancing NAMES", ",".join(BALANCES), type=_list(_balance), default=(None,)
    )
    _add_designs(parser)
    add_option(
        parser,
        "--engine",
        "simulation engine (default auto)",
        choices=("auto", "flow", "packet"),
        default="auto",
    )
    add_option(
        parser,
        "--cc",
        "congestion control (default none)",
        choices=("none", "dcqcn"),
        default="none",
    )
    add_option(
        parser, "--mtu BYTES", "packet payload (default 4096)", type=positive_int, default=4096
    )
    add_option(parser, "--workers, -j N", "processes (default: every core)")
    add_option(
        parser, "--on", "where to run (default local)", choices=("local", "ray"), default="local"
    )
    add_option(parser, "--csv PATH", "write one simulation per line")
    add_option(parser, "--html PATH", "write a page with plots")
    add_catalog(parser)
    add_json(parser)


def _add_designs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("networks to simulate")
    add_option(group, "--fabric FILE...", "saved fabric (repeatable)")
    add_option(
        group, "--gpus COUNTS", "design fabrics for N GPUs", type=_list(positive_int), default=()
    )
    add_option(group, "--machine NAME", "machine of the catalog, for --gpus")
    add_option(
        group, "--switch NAMES", "leaf switches, for --gpus", type=_list(str), default=(None,)
    )
    add_option(
        group,
        "--topology SHAPES",
        "named topologies (default fat-tree)",
        type=_list(str),
        default=(None,),
    )
    add_option(
        group,
        "--hosts COUNTS",
        "hosts of the named topologies",
        type=_list(positive_int),
        default=(),
    )
    add_option(
        group,
        "--oversubscription RATIOS",
        "oversubscription ratios (default 1)",
        type=_list(float),
        default=(None,),
    )
    add_option(group, "--link SPEED", "link speed of named topologies (default 400Gbps)")
    add_option(group, "--delay TIME", "link delay (default 1us)")


def _list(one: Callable[[str], object]) -> Callable[[str], tuple[object, ...]]:
    """A reader of values with commas between, for argparse."""

    def read(text: str) -> tuple[object, ...]:
        try:
            return tuple(one(part.strip()) for part in text.split(",") if part.strip())
        except ValueError:
            raise argparse.ArgumentTypeError(
                f'"{text}" contains a value that is not a number'
            ) from None

    return read


def _balance(text: str) -> str:
    if text not in BALANCES:
        raise argparse.ArgumentTypeError(
            f'"{text}" is not a load-balancing mode; use {", ".join(BALANCES)}'
        )
    return text


def _seeds(text: str) -> tuple[int, ...]:
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if (
            not first.isdigit()
            or (dash and not last.isdigit())
            or int(last or first) - int(first) >= MOST_RUNS
        ):
            raise argparse.ArgumentTypeError(
                f'"{text}" are not seeds; write them like 1-8 or 1,5,9'
            )
        seeds += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(seeds))


def run(arguments: argparse.Namespace) -> int:
    """Simulate every combination; print the spread over seeds."""
    options = _options(arguments)
    sweep = simulate_sweep(options, print_progress)
    if arguments.csv:
        write_atomic(arguments.csv, sweep_csv(sweep))
    if arguments.html:
        write_atomic(arguments.html, sweep_page(sweep))
    if arguments.json:
        print_json(sweep)
        return EXIT_OK
    print_table(sweep_table(sweep))
    for path in (arguments.csv, arguments.html):
        if path:
            print_text(f"wrote {path}")
    return EXIT_OK


def _options(arguments: argparse.Namespace) -> SweepOptions:
    path = Path(arguments.what)
    file = path if path.suffix in (".cm", ".xml") else None
    if file is None and arguments.size == (None,):
        raise InputError.one("--size", "is missing", "add --size, such as 1MB,64MB")
    designs = _designs(arguments, file)
    axes = Axes(
        designs=tuple(name for name, _, _ in designs),
        sizes_bytes=arguments.size,
        algorithms=arguments.algorithm if file is None else ("auto",),
        channels=arguments.channels if file is None else (1,),
        balancings=arguments.load_balancing,
        seeds=arguments.seeds,
    )
    layers, hosts = catalog_layers(arguments), hosts_of(file)
    return SweepOptions(
        networks=tuple(
            open_network(options, fabric, layers, hosts) for _, options, fabric in designs
        ),
        axes=axes,
        simulation=SimulationOptions(
            engine=arguments.engine, congestion_control=arguments.cc, mtu_bytes=arguments.mtu
        ),
        collective=Collective(name=arguments.what, size_bytes=0.0) if file is None else None,
        file=file,
        on=arguments.on,
        workers=arguments.workers or cores_count(),
    )


def _designs(
    arguments: argparse.Namespace, file: Path | None
) -> list[tuple[str, NetworkOptions, Path | None]]:
    base = NetworkOptions(
        machine=arguments.machine, link_bits_per_s=arguments.link, delay_s=arguments.delay
    )
    designs: list[tuple[str, NetworkOptions, Path | None]] = [
        (str(path), base, path) for path in arguments.fabric
    ]
    for ratio in arguments.oversubscription:
        more = f", {ratio:g}:1" if ratio is not None else ""
        for gpus in arguments.gpus:
            designs += [
                (
                    f"{gpus} GPUs{f', {leaf}' if leaf else ''}{more}",
                    replace(base, gpus=gpus, leaf=leaf, oversubscription_ratio=ratio),
                    None,
                )
                for leaf in arguments.switch
            ]
        for shape in arguments.topology:
            hosts = arguments.hosts or ((None,) if file is not None and not designs else ())
            designs += [
                (
                    f"{shape or 'fat-tree'}{f' {count}' if count else ''}{more}",
                    replace(base, shape=shape, hosts=count, oversubscription_ratio=ratio),
                    None,
                )
                for count in hosts
            ]
    if not designs:
        fix = "add --fabric FILE, --gpus N, or --topology fat-tree --hosts 128"
        raise InputError.one("network", "no network", fix)
    return designs
