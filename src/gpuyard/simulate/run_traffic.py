"""Simulate traffic on a network with the flow or packet engine: matrices, MSCCL, Chakra traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from gpuyard.document.read import read_text
from gpuyard.errors import InputError
from gpuyard.simulate.faults import Fault, PfcStorm
from gpuyard.simulate.htsim_matrix import read_matrix
from gpuyard.simulate.msccl import read_msccl
from gpuyard.simulate.progress import OnProgress, ignore_progress
from gpuyard.simulate.sites.named_topologies import NetworkSetup
from gpuyard.simulate.summary import SimulationResult
from gpuyard.simulate.traffic import FlowSet

MOST_PACKETS = 5_000_000  # that `auto` simulates one by one: a few seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """Engine, load balancing, failures and seed of a simulation."""

    engine: Literal["auto", "flow", "packet"] = "auto"
    balancing: str | None = None  # None: as the fabric was designed, by hash where it was not
    congestion_control: Literal["none", "dcqcn"] = "none"
    mtu_bytes: int = 4096
    acks: Literal["delayed", "final", "queued", "quick"] = "final"
    done: Literal["received", "acknowledged"] = "received"  # when a flow counts as done
    cell_count: int = 1
    seed: int = 1
    watchdog_s: float | None = None  # paused this long, a port drops; None: as designed
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrafficFile:
    """Traffic from a file: its label, number of hosts and flows."""

    label: str
    host_count: int
    traffic: FlowSet
    done: Literal["received", "acknowledged"] = "received"
    notes: tuple[str, ...] = ()


def read_traffic(path: Path, size_bytes: float | None = None) -> TrafficFile:
    """Read a connection matrix (.cm), an MSCCL algorithm (.xml, needs a size) or a trace (.et)."""
    if path.suffix == ".et":
        from gpuyard.simulate.chakra_files import read_traces

        return read_traces(path)
    text = read_text(path)
    if path.suffix == ".xml" or text.lstrip().startswith("<"):
        if size_bytes is None:
            raise InputError.one(
                "--size", f"{path} is an algorithm without a size", "add --size, such as 64MB"
            )
        algorithm = read_msccl(text, size_bytes, str(path))
        return TrafficFile(
            label=f"{path.name}, {algorithm.name}",
            host_count=algorithm.rank_count,
            traffic=algorithm.traffic,
        )
    matrix = read_matrix(text, str(path))
    # csg-htsim counts a flow, and fires what waits for it, when its sender knows that all has
    # arrived.
    return TrafficFile(
        label=path.name, host_count=matrix.host_count, traffic=matrix.traffic, done="acknowledged"
    )


def simulate_traffic(
    site: NetworkSetup,
    file: TrafficFile,
    options: SimulationOptions,
    on_progress: OnProgress = ignore_progress,
) -> SimulationResult:
    """Simulate the flows of a file on a network."""
    hosts = site.network.host_count
    if file.host_count > hosts:
        raise InputError.one(
            file.label,
            f"{file.host_count} nodes, the network has {hosts} hosts",
            f"use --hosts {file.host_count}",
        )
    return run_traffic(
        site, file.traffic, replace(options, done=file.done), file.label, file.notes, on_progress
    )


def run_traffic(
    site: NetworkSetup,
    traffic: FlowSet,
    options: SimulationOptions,
    label: str,
    notes: Sequence[str] = (),
    on_progress: OnProgress = ignore_progress,
) -> SimulationResult:
    """Simulate traffic on a network; only the engine that is used is imported."""
    if chosen_engine(traffic, options) == "packet":
        from gpuyard.simulate.packet.packet_run import run
    else:
        from gpuyard.simulate.flow.flow_run import run
    return run(site, traffic, options, label, notes, on_progress)


def chosen_engine(traffic: FlowSet, options: SimulationOptions) -> Literal["flow", "packet"]:
    """Return the engine; `auto` is packets if they are few or something needs them."""
    if options.engine != "auto":
        return options.engine
    storm = any(isinstance(fault, PfcStorm) for fault in options.faults)
    needs = storm or options.congestion_control != "none" or options.balancing == "flowlet"
    packets = float(np.ceil(traffic.size_bytes / options.mtu_bytes).sum())
    return "packet" if needs or packets <= MOST_PACKETS else "flow"
