"""Simulate a collective message by message, or in rounds when there are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, get_args

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, closest_match
from gpuyard.simulate.collectives.bus import bus_bytes_per_s
from gpuyard.simulate.collectives.compile import (
    ALGORITHMS,
    Algorithm,
    CollectiveCall,
    HostGrid,
    Name,
    collective_traffic,
    grid_of,
)
from gpuyard.simulate.collectives.constants import read_constants
from gpuyard.simulate.collectives.rounds import rounds_of
from gpuyard.simulate.collectives.timing import Technology, collective_time
from gpuyard.simulate.flow.flow_run import flow_settings
from gpuyard.simulate.flow.rounds import NEVER_S, simulate_rounds
from gpuyard.simulate.flow.timeline import constant_interval, intervals_of_rounds
from gpuyard.simulate.loads import message_count, round_bytes
from gpuyard.simulate.network import Network
from gpuyard.simulate.progress import OnProgress, ignore_progress
from gpuyard.simulate.result import jain_index, max_mean_ratio
from gpuyard.simulate.routes import NoRouteError
from gpuyard.simulate.run_traffic import SimulationOptions, run_traffic
from gpuyard.simulate.sites.named_topologies import NetworkSetup
from gpuyard.simulate.summary import (
    NetworkSummary,
    Phase,
    SimulationResult,
    fabric_links,
    hottest_links,
)
from gpuyard.simulate.traffic import FlowSet
from gpuyard.units import BYTES, DURATION, show

COLLECTIVES: tuple[Name, ...] = get_args(Name)
Hosts = npt.NDArray[np.int64]
MAX_MESSAGES = 400_000  # of a collective that the flow engine simulates message by message
MAX_LISTED = 50 * MAX_MESSAGES  # messages that fit into memory
CHUNKS = 4  # pipelined through trees, chains and levels
UNPIPELINED = {"ring", "rail-ring", "direct", "halving", "pxn"}
NEEDS_SCALE_UP = {"hierarchical", "rail-ring", "pxn", "sharp"}  # servers with several hosts
ORDER: tuple[Algorithm, ...] = (
    "hierarchical",
    "rail-ring",
    "ring",
    "tree",
    "halving",
    "nvls",
    "sharp",
    "direct",
    "pxn",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """A collective, as nccl-tests would run it."""

    name: str
    size_bytes: float
    algorithm: str = "auto"
    channels: int = 1
    chunks: int | None = None
    ranks: int | None = None  # the first N hosts; None: all


def simulate_collective(
    site: NetworkSetup,
    collective: Collective,
    options: SimulationOptions,
    on_progress: OnProgress = ignore_progress,
) -> SimulationResult:
    """Simulate a collective; `auto` is the algorithm that the flow engine finishes first.

    Raises:
        InputError: a wrong name, or an algorithm without routes on this network.
    """
    name = _known_name(collective.name)
    if collective.size_bytes < 1:
        raise InputError.one("--size", "nothing to send", "write it like 1GB")
    hosts = _ranks(collective, site.network)
    grid = grid_of(site.network, hosts)
    calls = _calls(name, collective, grid, site)
    best, notes = calls[0], list[str]()
    if len(calls) > 1:
        times = _routed_times(site, calls, grid, options)
        if not times:
            raise _no_routes(name)
        best, notes = times[0][1], [_comparison(times)]
    words = f"{name} of {show(collective.size_bytes, BYTES)} over {len(grid.hosts):,} ranks"
    try:
        result = _in_rounds(site, best, grid, options, words, notes) or run_traffic(
            site, _traffic(best, site.network, hosts), options, words, notes, on_progress
        )
    except NoRouteError as error:
        if options.faults:
            raise
        auto = _calls(name, replace(collective, algorithm="auto"), grid, site)
        times = _routed_times(site, auto, grid, options)
        raise _no_routes(name, best, error, times) from None
    return _with_bandwidth(site, result, best, grid)


def _with_bandwidth(
    site: NetworkSetup, result: SimulationResult, call: CollectiveCall, grid: HostGrid
) -> SimulationResult:
    summary, ranks = result.summary, len(grid.hosts)
    time_s = summary.completion_s
    complete = summary.completed == summary.flows and time_s > 0
    bus = bus_bytes_per_s(call.collective, call.size_bytes, ranks, time_s) if complete else None
    return replace(
        result,
        summary=replace(
            summary,
            algorithm=call.algorithm,
            bus_bytes_per_s=bus,
            algorithm_bytes_per_s=call.size_bytes / time_s if complete else None,
            **_measured(site, call.collective, call.size_bytes, grid),
        ),
    )


class _Measured(TypedDict, total=False):
    """The prediction of the time model of NCCL."""

    nccl_s: float
    nccl_bus_bytes_per_s: float
    nccl_algorithm: str


def _measured(site: NetworkSetup, name: Name, size_bytes: float, grid: HostGrid) -> _Measured:
    """NCCL's time on such links; empty where the measurements do not cover them."""
    if site.nccl is None:
        return {}
    technology: Technology = "none" if grid.servers == 1 else site.nccl.technology
    cluster = replace(
        site.nccl, domains=grid.servers, domain_chips=grid.rails, technology=technology
    )
    timing = collective_time(cluster, name, np.array([size_bytes]), read_constants())
    time_s = float(timing.time_s[0])
    return {
        "nccl_s": time_s,
        "nccl_bus_bytes_per_s": bus_bytes_per_s(name, size_bytes, len(grid.hosts), time_s),
        "nccl_algorithm": timing.names[int(timing.choice[0])],
    }


def _traffic(call: CollectiveCall, network: Network, hosts: Hosts | None) -> FlowSet:
    count = message_count(call, grid_of(network, hosts))
    if count > MAX_LISTED:
        raise InputError.one(
            "--algorithm",
            f"{call.algorithm} has {count:,} messages to list",
            "use --engine flow without failures",
        )
    return collective_traffic(call, network, hosts)


def _known_name(name: str) -> Name:
    for known in COLLECTIVES:
        if name in (known, known.replace("-", "_"), known.replace("-", "")):
            return known
    meant = closest_match(name, COLLECTIVES)
    fix = f'did you mean "{meant}"?' if meant else f"use {', '.join(COLLECTIVES)}"
    raise InputError.one("collective", f'no collective named "{name}"', fix)


def _ranks(collective: Collective, network: Network) -> Hosts | None:
    """The hosts that take part; None for all."""
    ranks = collective.ranks
    if ranks is None:
        return None
    if not 2 <= ranks <= network.host_count:
        raise InputError.one(
            "--ranks", f"{ranks} of {network.host_count} hosts", "use 2 or more, up to all"
        )
    return np.arange(ranks, dtype=np.int64)


def _calls(
    name: Name, collective: Collective, grid: HostGrid, site: NetworkSetup
) -> list[CollectiveCall]:
    """The named algorithm, or all that suit the servers and the switches."""
    known = [algorithm for algorithm in ORDER if (name, algorithm) in ALGORITHMS]
    if not site.sums_in_switches:
        if collective.algorithm == "sharp":
            raise InputError.one(
                "--algorithm",
                "SHARP sums in InfiniBand switches, and this network has none",
                "use nvls, or a fabric of InfiniBand switches such as qm9700",
            )
        known = [algorithm for algorithm in known if algorithm != "sharp"]
    chosen = known
    if collective.algorithm != "auto":
        chosen = [algorithm for algorithm in known if algorithm == collective.algorithm]
        if not chosen:
            meant = closest_match(collective.algorithm, known)
            fix = f'did you mean "{meant}"?' if meant else f"use {', '.join(('auto', *known))}"
            raise InputError.one("--algorithm", f"no {collective.algorithm} {name}", fix)
    elif len(known) > 1:
        chosen = [algorithm for algorithm in known if _suits(algorithm, known, grid)]
    return [
        CollectiveCall(
            collective=name,
            algorithm=algorithm,
            size_bytes=collective.size_bytes,
            channels=collective.channels,
            chunks=collective.chunks or (1 if algorithm in UNPIPELINED else CHUNKS),
        )
        for algorithm in chosen
    ]


def _suits(algorithm: Algorithm, known: Sequence[Algorithm], grid: HostGrid) -> bool:
    """Whether `auto` considers an algorithm for these servers."""
    ranks, levels = len(grid.hosts), grid.servers > 1 and grid.rails > 1
    if algorithm in NEEDS_SCALE_UP:
        return levels
    if algorithm == "nvls":
        return grid.rails > 1
    if algorithm == "halving":
        return ranks & (ranks - 1) == 0 and ranks <= 1024
    if algorithm == "ring":
        return not levels or "rail-ring" not in known
    return algorithm != "tree" or ranks <= 8192


def _routed_times(
    site: NetworkSetup,
    calls: Sequence[CollectiveCall],
    grid: HostGrid,
    options: SimulationOptions,
) -> list[tuple[float, CollectiveCall]]:
    """The algorithms that have routes, fastest first by the flow engine alone."""
    static = constant_interval(site.network, options.faults) is not None
    quick = replace(
        options,
        engine="flow",
        congestion_control="none",
        faults=options.faults if static else (),
    )
    times: list[tuple[float, CollectiveCall]] = []
    for call in calls:
        try:
            result = _in_rounds(site, call, grid, quick, "", (), always=True) or run_traffic(
                site, collective_traffic(call, site.network, grid.hosts), quick, "", ()
            )
        except NoRouteError:
            continue
        times.append((result.summary.completion_s, call))
    return sorted(times, key=lambda item: item[0])


def _comparison(times: Sequence[tuple[float, CollectiveCall]]) -> str:
    items = (f"{call.algorithm} {show(time_s, DURATION)}" for time_s, call in times)
    return f"algorithms by flows alone: {', '.join(items)}"


def _no_routes(
    name: Name,
    call: CollectiveCall | None = None,
    error: NoRouteError | None = None,
    times: Sequence[tuple[float, CollectiveCall]] = (),
) -> InputError:
    """The error for a collective without routes, with an algorithm that has some as its fix."""
    what = f"no algorithm of {name} has routes on this network"
    if call is not None and error is not None:
        what = f"{call.algorithm} {name}: {error.problems[0].what}"
    fix = "use a fabric whose leaves are connected by spines, or fewer --ranks"
    return InputError.one(
        "--algorithm", what, f"use --algorithm {times[0][1].algorithm}" if times else fix
    )


def _in_rounds(
    site: NetworkSetup,
    call: CollectiveCall,
    grid: HostGrid,
    options: SimulationOptions,
    words: str,
    notes: Sequence[str],
    *,
    always: bool = False,
) -> SimulationResult | None:
    """Simulate a collective in rounds; None if its messages can or must be simulated one by one."""
    intervals = intervals_of_rounds(site.network, options.faults)
    small = message_count(call, grid) <= MAX_MESSAGES
    if options.engine == "packet" or intervals is None or (small and not always):
        return None
    try:
        rounds = rounds_of(call, grid)
    except InputError:
        return None
    settings, more = flow_settings(site, options)
    try:
        timed = simulate_rounds(site.network, rounds, settings, intervals=intervals)
    except NoRouteError:
        if options.faults:  # some hosts are cut off: their flows never finish
            return None
        raise
    if timed.time_s > NEVER_S:
        return None
    phases = tuple(
        Phase(label=item.label, begin_s=item.begin_s, end_s=item.end_s) for item in timed.rounds
    )
    flows = sum(item.flow_count * item.repeat_count for item in timed.rounds)
    summary = NetworkSummary(
        network=site.label,
        traffic=words,
        engine="flow",
        balancing=settings.balance,
        congestion_control="none",
        seed=options.seed,
        hosts=site.network.host_count,
        flows=flows,
        completed=flows,
        completion_s=timed.time_s,
        total_bytes=call.size_bytes * len(grid.hosts),
        notes=(
            *site.notes,
            *notes,
            *more,
            "in rounds: repeated flows are simulated once, so there are no flow completion times",
        ),
    )
    result = SimulationResult(
        summary=summary, network=site.network, topology=site.topology, phases=phases
    )
    if always:
        return result
    shares = [item.interval_ratios for item in timed.rounds]
    carried = round_bytes(site.network, rounds, settings, intervals, shares)
    return result if carried is None else _with_links(replace(result, link_bytes=carried))


def _with_links(result: SimulationResult) -> SimulationResult:
    utilisation, carried = result.utilisation, result.link_bytes
    assert utilisation is not None, "the bytes of each link are known"
    assert carried is not None, "the bytes of each link are known"
    between = fabric_links(result.network)
    return replace(
        result,
        summary=replace(
            result.summary,
            link_mmr_ratio=max_mean_ratio(utilisation[between]),
            link_jain_ratio=jain_index(utilisation[between]),
            link_max_ratio=float(utilisation.max()),
            hottest=hottest_links(result.network, utilisation, carried),
        ),
    )
