"""`gpuyard simulate collective`: a collective by its messages, or in rounds where those are too many to list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, get_args

import numpy as np
import numpy.typing as npt

from gpuyard.app.engine_flow import flow_settings
from gpuyard.app.shapes import Site
from gpuyard.app.simulate import Play, run_traffic
from gpuyard.errors import InputError, nearest
from gpuyard.simulate.collectives import (
    ALGORITHMS,
    Algorithm,
    Call,
    Grid,
    bus_bytes_per_s,
    collective_traffic,
    grid_of,
)
from gpuyard.simulate.collectives.compile import Name
from gpuyard.simulate.collectives.constants import read_constants
from gpuyard.simulate.collectives.rounds import rounds_of
from gpuyard.simulate.collectives.timing import Technology, collective_time
from gpuyard.simulate.flow import simulate_rounds
from gpuyard.simulate.loads import message_count, round_bytes
from gpuyard.simulate.network import Network
from gpuyard.simulate.result import jain_index, max_mean_ratio
from gpuyard.simulate.summary import Phase, Simulation, Summary, fabric_links, hottest_links
from gpuyard.simulate.traffic import Traffic
from gpuyard.units import BYTES, DURATION, show

__all__ = ["COLLECTIVES", "Collective", "simulate_collective"]

COLLECTIVES: tuple[Name, ...] = get_args(Name)
Hosts = npt.NDArray[np.int64]
MOST_MESSAGES = 400_000  # of a collective that the flow engine simulates message by message
PARTS = 4  # that follow each other through trees, chains and levels
ORDER: tuple[Algorithm, ...] = ("hierarchical", "rail-ring", "ring", "tree", "halving", "nvls", "direct", "pxn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """A collective as it is asked for."""

    name: str
    size_bytes: float
    algorithm: str = "auto"
    channels: int = 1
    parts: int | None = None
    ranks: int | None = None  # the first so many hosts; None: all


def simulate_collective(site: Site, asked: Collective, play: Play) -> Simulation:
    """A collective over a network; `auto` takes the algorithm that flows finish first with."""
    name = _collective(asked.name)
    if asked.size_bytes < 1:
        raise InputError.one("--size", "nothing to send", "write it like 1GB")
    hosts = _ranks(asked, site.network)
    grid = grid_of(site.network, hosts)
    calls = _calls(name, asked, grid)
    best, notes = _fastest(site, calls, grid, play)
    ranks = len(grid.hosts)
    words = f"{name} of {show(asked.size_bytes, BYTES)} over {ranks:,} ranks"
    done = _rounds(site, best, grid, play, words, notes) or run_traffic(
        site, _traffic(best, site.network, hosts), play, words, notes
    )
    time_s = done.summary.completion_s
    whole = done.summary.completed == done.summary.flows and time_s > 0
    return replace(
        done,
        summary=replace(
            done.summary,
            algorithm=best.algorithm,
            bus_bytes_per_s=bus_bytes_per_s(name, asked.size_bytes, ranks, time_s) if whole else None,
            algorithm_bytes_per_s=asked.size_bytes / time_s if whole else None,
            **_measured(site, name, asked.size_bytes, grid),
        ),
    )


class _Measured(TypedDict, total=False):
    """What the time model of NCCL says."""

    nccl_s: float
    nccl_bus_bytes_per_s: float
    nccl_algorithm: str


def _measured(site: Site, name: Name, size_bytes: float, grid: Grid) -> _Measured:
    """NCCL's time on such links; nothing where no measurement speaks of them."""
    if site.nccl is None:
        return {}
    technology: Technology = "none" if grid.servers == 1 else site.nccl.technology
    cluster = replace(site.nccl, domains=grid.servers, domain_chips=grid.rails, technology=technology)
    timing = collective_time(cluster, name, np.array([size_bytes]), read_constants())
    time_s = float(timing.time_s[0])
    return {
        "nccl_s": time_s,
        "nccl_bus_bytes_per_s": bus_bytes_per_s(name, size_bytes, len(grid.hosts), time_s),
        "nccl_algorithm": timing.names[int(timing.choice[0])],
    }


def _traffic(call: Call, network: Network, hosts: Hosts | None) -> Traffic:
    """The messages of a call; InputError where there are too many to list."""
    count = message_count(call, grid_of(network, hosts))
    if count > 50 * MOST_MESSAGES:
        raise InputError.one(
            "--algorithm", f"{call.algorithm} has {count:,} messages to list", "use --engine flow without failures"
        )
    return collective_traffic(call, network, hosts)


def _collective(name: str) -> Name:
    """The collective of that name."""
    for known in COLLECTIVES:
        if name in (known, known.replace("-", "_"), known.replace("-", "")):
            return known
    meant = nearest(name, COLLECTIVES)
    fix = f'did you mean "{meant}"?' if meant else f"use {', '.join(COLLECTIVES)}"
    raise InputError.one("collective", f'no collective named "{name}"', fix)


def _ranks(asked: Collective, network: Network) -> Hosts | None:
    """The hosts that take part; None for all."""
    if asked.ranks is None:
        return None
    if not 2 <= asked.ranks <= network.host_count:
        raise InputError.one("--ranks", f"{asked.ranks} of {network.host_count} hosts", "use 2 or more, up to all")
    return np.arange(asked.ranks, dtype=np.int64)


def _calls(name: Name, asked: Collective, grid: Grid) -> list[Call]:
    """The ways to do it: the one that is named, or all that suit the servers."""
    can = [algorithm for algorithm in ORDER if (name, algorithm) in ALGORITHMS]
    if asked.algorithm != "auto":
        if asked.algorithm not in can:
            meant = nearest(asked.algorithm, can)
            fix = f'did you mean "{meant}"?' if meant else f"use {', '.join(('auto', *can))}"
            raise InputError.one("--algorithm", f"no {asked.algorithm} {name}", fix)
        can = [algorithm for algorithm in can if algorithm == asked.algorithm]
    elif len(can) > 1:
        levels = grid.servers > 1 and grid.rails > 1
        single = {"hierarchical", "rail-ring", "pxn"}  # need servers with several hosts
        n = len(grid.hosts)
        can = [a for a in can if levels or a not in single]
        can = [a for a in can if a != "nvls" or grid.rails > 1]
        can = [a for a in can if a != "halving" or (not n & (n - 1) and n <= 1024)]
        can = [a for a in can if a != "tree" or n <= 8192]
        can = [a for a in can if a != "ring" or not levels or "rail-ring" not in can]
    return [
        Call(
            collective=name,
            algorithm=algorithm,
            size_bytes=asked.size_bytes,
            channels=asked.channels,
            parts=asked.parts or (1 if algorithm in ("ring", "rail-ring", "direct", "halving", "pxn") else PARTS),
        )
        for algorithm in can
    ]


def _fastest(site: Site, calls: Sequence[Call], grid: Grid, play: Play) -> tuple[Call, tuple[str, ...]]:
    """The call whose flows finish first."""
    if len(calls) == 1:
        return calls[0], ()
    quick = replace(play, engine="flow", faults=(), congestion_control="none")
    times: list[tuple[float, int]] = []
    for place, call in enumerate(calls):
        done = _rounds(site, call, grid, quick, "", (), always=True) or run_traffic(
            site, collective_traffic(call, site.network, grid.hosts), quick, "", ()
        )
        times.append((done.summary.completion_s, place))
    best = min(times)
    told = ", ".join(f"{calls[place].algorithm} {show(time_s, DURATION)}" for time_s, place in sorted(times))
    return calls[best[1]], (f"algorithms by flows alone: {told}",)


def _rounds(
    site: Site, call: Call, grid: Grid, play: Play, words: str, notes: Sequence[str], *, always: bool = False
) -> Simulation | None:
    """The collective in rounds where it has too many messages to list; None where it can be listed or must be."""
    small = message_count(call, grid) <= MOST_MESSAGES
    try:
        rounds = rounds_of(call, grid)
    except InputError:
        return None
    if play.engine == "packet" or play.faults or (small and not always):
        return None
    settings, more = flow_settings(site, play)
    found = simulate_rounds(site.network, rounds, settings)
    phases = tuple(Phase(label=item.label, begin_s=item.begin_s, end_s=item.end_s) for item in found.rounds)
    carried = None if always else round_bytes(site.network, rounds, settings)
    flows = sum(item.flow_count * item.repeat_count for item in found.rounds)
    summary = Summary(
        network=site.label, traffic=words, engine="flow", balancing=settings.balance, congestion_control="none",
        seed=play.seed, hosts=site.network.host_count, flows=flows, completed=flows, completion_s=found.time_s,
        total_bytes=call.size_bytes * len(grid.hosts),
        notes=(*site.notes, *notes, *more, "in rounds: flows that repeat are simulated once, so there are no FCTs"),
    )  # fmt: skip
    made = Simulation(summary=summary, network=site.network, topology=site.topology, phases=phases, link_bytes=carried)
    return made if carried is None else _with_links(made)


def _with_links(made: Simulation) -> Simulation:
    """The loads of links in the summary."""
    utilisation, carried = made.utilisation, made.link_bytes
    assert utilisation is not None, "it was counted"
    assert carried is not None, "it was counted"
    between = fabric_links(made.network)
    return replace(
        made,
        summary=replace(
            made.summary,
            link_mmr_ratio=max_mean_ratio(utilisation[between]),
            link_jain_ratio=jain_index(utilisation[between]),
            link_max_ratio=float(utilisation.max()),
            hottest=hottest_links(made.network, utilisation, carried),
        ),
    )
