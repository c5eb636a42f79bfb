"""Options that simulations of networks share: which network, which engine, what fails."""

from __future__ import annotations

import argparse
import re

from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_layers
from gpuyard.errors import Infeasible, InputError, Problem, closest_match
from gpuyard.simulate.faults import Fault, LinkDown, NodeDown, PfcStorm, SlowLink, Straggler
from gpuyard.simulate.network import Network
from gpuyard.simulate.run_traffic import SimulationOptions
from gpuyard.simulate.sites.named_topologies import (
    SHAPES,
    NetworkOptions,
    NetworkSetup,
    needs_design,
    shaped_site,
)
from gpuyard.units import BYTES, DURATION, RATIO, UnitError, parse

BALANCES = ("ecmp", "spray", "adaptive", "flowlet")


def add_network(parser: argparse.ArgumentParser) -> None:
    """Which network: a file, a design, or a shape."""
    group = parser.add_argument_group("network")
    add_option(group, "--fabric FILE", "a saved fabric, a topology or cabling")
    add_option(group, "--gpus N", "design a fabric for N GPUs")
    add_option(group, "--machine NAME", "machine of the catalog, for --gpus")
    add_option(group, "--switch, --leaf NAME", "leaf switch, for --gpus", dest="leaf")
    add_option(group, "--spine NAME", "spine switch, for --gpus")
    add_option(
        group,
        "--oversubscription R",
        "oversubscription ratio (default 1: non-blocking)",
        type=float,
    )
    add_option(group, "--topology SHAPE", f"{', '.join(SHAPES)} (default fat-tree)")
    add_option(group, "--hosts N", "hosts of the named topology")
    add_option(group, "--link SPEED", "link speed (default 400Gbps)")
    add_option(group, "--delay TIME", "link delay (default 1us)")
    add_option(group, "--gpus-per-server N", "GPUs per server of rails and designs (default 8)")
    add_option(group, "--scale-up SPEED", "scale-up bandwidth per GPU, one direction")


def add_play(parser: argparse.ArgumentParser) -> None:
    """How it is simulated."""
    group = parser.add_argument_group("engine")
    add_option(
        group,
        "--engine",
        "max-min fair flows, or packets; auto: packets for small traffic",
        choices=("auto", "flow", "packet"),
        default="auto",
    )
    add_option(
        group,
        "--load-balancing",
        "load balancing; default: as designed, else ecmp",
        choices=BALANCES,
    )
    add_option(
        group,
        "--cc",
        "congestion control (default none)",
        choices=("none", "dcqcn"),
        default="none",
    )
    add_option(group, "--mtu BYTES", "packet payload (default 4096)", type=_size, default=4096)
    add_option(
        group,
        "--acks",
        "ACKs: the last one in the data queues (default), all as a delay, all in the data"
        " queues, or in their own queues",
        choices=("final", "delayed", "queued", "quick"),
        default="final",
    )
    add_option(group, "--cells N", "packets simulated as one cell: faster, coarser", default=1)
    add_option(group, "--watchdog TIME", "PFC watchdog: drop at a port paused for this long")
    add_option(
        group,
        "--seed N",
        "random seed of ECMP hashes and ECN marks (default 1)",
        type=int,
        default=1,
    )


def add_faults(parser: argparse.ArgumentParser) -> None:
    """What fails, and when."""
    group = parser.add_argument_group(
        "failures", "node names as in the results; a time after @, a span as @100us-2ms"
    )
    add_option(group, "--fail NODE|A:B[@TIME]...", "fail a node or link (repeatable)")
    add_option(group, "--slow-link HOST|A:B=50%[@TIME]...", "a slow link")
    add_option(group, "--straggler HOST=50us[@TIME]...", "a straggler")
    add_option(
        group, "--pfc-storm HOST[@TIME]...", "a NIC that sends PFC pause frames continuously"
    )
    add_option(
        group, "--reconverge TIME", "time until routes avoid a failure (default 0)", default=0.0
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where results go."""
    add_option(parser, "--html PATH", "write a page: heat map, timeline, distributions")
    add_option(parser, "--trace PATH", "write a timeline for Perfetto or chrome://tracing")
    add_catalog(parser)
    add_json(parser)


def wanted_of(arguments: argparse.Namespace) -> NetworkOptions:
    """The flags about the network as a value."""
    ratio = arguments.oversubscription
    if ratio is not None and not ratio > 0:
        raise InputError.one("--oversubscription", f"{ratio:g} is not above zero", "use 1 or more")
    return NetworkOptions(
        gpus=arguments.gpus,
        machine=arguments.machine,
        leaf=arguments.leaf,
        spine=arguments.spine,
        oversubscription_ratio=ratio,
        shape=arguments.topology,
        hosts=arguments.hosts,
        link_bits_per_s=arguments.link,
        delay_s=arguments.delay,
        gpus_per_server=arguments.gpus_per_server,
        scale_up_bits_per_s=arguments.scale_up,
    )


def site_of(
    arguments: argparse.Namespace, default_hosts: int | None = None
) -> NetworkSetup | Infeasible:
    """The network of the flags; the designer is imported only when there is something to design."""
    options = wanted_of(arguments)
    if arguments.fabric is None and not needs_design(options):
        return shaped_site(options, default_hosts)
    from gpuyard.app.networks import open_network

    return open_network(options, arguments.fabric, catalog_layers(arguments), default_hosts)


def play_of(arguments: argparse.Namespace, network: Network | None = None) -> SimulationOptions:
    """The flags about the engine, and with a network the failures, as a value."""
    return SimulationOptions(
        engine=arguments.engine,
        balancing=arguments.load_balancing,
        congestion_control=arguments.cc,
        mtu_bytes=arguments.mtu,
        acks=arguments.acks,
        cell_count=arguments.cells,
        seed=arguments.seed,
        watchdog_s=arguments.watchdog,
        faults=_faults(arguments, network) if network is not None else (),
    )


def _size(text: str) -> int:
    try:
        size = round(parse(text if not text.isdigit() else f"{text}B", BYTES))
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 1 <= size <= 1 << 20:
        raise argparse.ArgumentTypeError(f'"{text}" is not a packet size; write it like 4096')
    return size


def _faults(arguments: argparse.Namespace, network: Network) -> tuple[Fault, ...]:
    """Every failure of the flags; InputError with all that are not understood."""
    faults: list[Fault] = []
    problems: list[Problem] = []
    readers = (
        ("--fail", arguments.fail, _failure),
        ("--slow-link", arguments.slow_link, _slowness),
        ("--straggler", arguments.straggler, _straggler),
        ("--pfc-storm", arguments.pfc_storm, _storm),
    )
    for flag, texts, reader in readers:
        for text in texts:
            try:
                faults += reader(text, network, arguments.reconverge)
            except UnitError as error:
                problems.append(Problem(where=flag, what=error.what, fix=error.fix))
            except InputError as error:
                problems += [
                    Problem(where=flag, what=problem.what, fix=problem.fix)
                    for problem in error.problems
                ]
    if problems:
        raise InputError(problems)
    return tuple(faults)


def _when(text: str) -> tuple[str, float, float]:
    """What stands before @, and from when to when."""
    what, _, time = text.partition("@")
    begin, _, end = time.partition("-")
    return (
        what,
        parse(begin, DURATION) if begin else 0.0,
        parse(end, DURATION) if end else float("inf"),
    )


def _names(text: str, network: Network) -> list[str]:
    """One node, or two separated by a colon; a host can be written server-1/gpu0_eth."""
    known = set(network.names)
    plain = {_unpadded(name): name for name in network.names}
    names = []
    for part in text.split(":"):
        name = part if part in known else part.replace("/", " ", 1)
        name = name if name in known else plain.get(_unpadded(name), name)
        if name not in known:
            meant = closest_match(name, known)
            fix = (
                f'did you mean "{meant}"?'
                if meant
                else f'name a node, such as "{network.names[network.host_count]}"'
            )
            raise InputError.one("failure", f'no node named "{part}"', fix)
        names.append(name)
    if len(names) > 2:
        raise InputError.one("failure", f'"{text}" names more than two nodes', "write A:B")
    return names


def _unpadded(name: str) -> str:
    return re.sub(r"\d+", lambda number: str(int(number[0])), name)


def _failure(text: str, network: Network, reconverge_s: float) -> list[Fault]:
    what, at_s, until_s = _when(text)
    names = _names(what, network)
    if len(names) == 1:
        return [NodeDown(node=names[0], at_s=at_s, until_s=until_s, reconverge_s=reconverge_s)]
    return [
        LinkDown(
            one=names[0], other=names[1], at_s=at_s, until_s=until_s, reconverge_s=reconverge_s
        )
    ]


def _slowness(text: str, network: Network, _: float) -> list[Fault]:
    """A cable, or all cables of a host into the fabric, at a share of the rate."""
    what, at_s, until_s = _when(text)
    match = re.fullmatch(r"(.+)=([^=]+)", what)
    if not match:
        raise InputError.one("--slow-link", f'"{text}" has no speed', "write it like host3=50%")
    ratio = parse(match[2], RATIO)
    names = _names(match[1], network)
    if len(names) == 2:
        return [
            SlowLink(one=names[0], other=names[1], rate_ratio=ratio, at_s=at_s, until_s=until_s)
        ]
    node = network.node(names[0])
    peers = sorted(
        {network.names[peer] for peer in network.link_to[network.link_from == node].tolist()}
    )
    return [
        SlowLink(one=names[0], other=peer, rate_ratio=ratio, at_s=at_s, until_s=until_s)
        for peer in peers
        if not peer.endswith(" scale-up")
    ]


def _straggler(text: str, network: Network, _: float) -> list[Fault]:
    what, at_s, until_s = _when(text)
    name, equals, lag = what.rpartition("=")
    if not equals:
        raise InputError.one("--straggler", f'"{text}" has no delay', "write it like host3=50us")
    return [
        Straggler(
            host=_names(name, network)[0], lag_s=parse(lag, DURATION), at_s=at_s, until_s=until_s
        )
    ]


def _storm(text: str, network: Network, _: float) -> list[Fault]:
    what, at_s, until_s = _when(text)
    return [PfcStorm(host=_names(what, network)[0], at_s=at_s, until_s=until_s)]
