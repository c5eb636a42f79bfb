"""`gpuyard simulate traffic`: the flows of a file over a network, by the engine that is asked for or that suits."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, cast

import numpy as np

from gpuyard.app.shapes import Site
from gpuyard.document import read_text
from gpuyard.errors import InputError
from gpuyard.simulate.faults import Fault, PfcStorm
from gpuyard.simulate.matrices import read_matrix
from gpuyard.simulate.msccl import read_msccl
from gpuyard.simulate.summary import Simulation
from gpuyard.simulate.traffic import Traffic

__all__ = ["Play", "TrafficFile", "read_traffic", "run_traffic", "simulate_traffic"]

MOST_PACKETS = 5_000_000  # that `auto` simulates one by one: a few seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """How it is simulated."""

    engine: Literal["auto", "flow", "packet"] = "auto"
    balancing: str | None = None  # None: as the fabric was designed, by hash where it was not
    congestion_control: Literal["none", "dcqcn"] = "none"
    mtu_bytes: int = 4096
    acks: Literal["delayed", "final", "queued", "quick"] = "final"
    done: Literal["received", "acknowledged"] = "received"  # when a flow counts as done
    cell_count: int = 1
    seed: int = 1
    watchdog_s: float | None = None  # how long a port is paused until it drops; None: as designed, else never
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrafficFile:
    """Traffic from a file: what it is called, the hosts it speaks of, and its flows."""

    label: str
    host_count: int
    traffic: Traffic
    done: Literal["received", "acknowledged"] = "received"
    notes: tuple[str, ...] = ()


def read_traffic(path: Path, size_bytes: float | None = None) -> TrafficFile:
    """A connection matrix (.cm), an MSCCL algorithm (.xml) for data of that size, or Chakra traces (.et)."""
    if path.suffix == ".et":  # loaded when it is used, as an engine is
        return cast(_Traces, importlib.import_module("gpuyard.app.traces_chakra")).read_traces(path)
    text = read_text(path)
    if path.suffix == ".xml" or text.lstrip().startswith("<"):
        if size_bytes is None:
            raise InputError.one("--size", f"{path} is an algorithm without a size", "add --size, such as 64MB")
        made = read_msccl(text, size_bytes, str(path))
        return TrafficFile(label=f"{path.name}, {made.name}", host_count=made.rank_count, traffic=made.traffic)
    matrix = read_matrix(text, str(path))
    # csg-htsim counts a flow, and fires what waits for it, when its sender knows that all has arrived.
    return TrafficFile(label=path.name, host_count=matrix.host_count, traffic=matrix.traffic, done="acknowledged")


def simulate_traffic(site: Site, file: TrafficFile, play: Play) -> Simulation:
    """The flows of a file over a network."""
    hosts = site.network.host_count
    if file.host_count > hosts:
        raise InputError.one(
            file.label, f"{file.host_count} nodes, the network has {hosts} hosts", f"use --hosts {file.host_count}"
        )
    return run_traffic(site, file.traffic, replace(play, done=file.done), file.label, file.notes)


class _Traces(Protocol):
    """What the module that reads Chakra traces offers."""

    def read_traces(self, path: Path) -> TrafficFile: ...


class _Engine(Protocol):
    """What the module of an engine offers."""

    def run(self, site: Site, traffic: Traffic, play: Play, words: str, notes: Sequence[str]) -> Simulation: ...


def run_traffic(site: Site, traffic: Traffic, play: Play, words: str, notes: Sequence[str] = ()) -> Simulation:
    """Traffic over a network; an engine is loaded only when it is used, so that the other costs no time."""
    engine = cast(_Engine, importlib.import_module(f"gpuyard.app.engine_{chosen_engine(traffic, play)}"))
    return engine.run(site, traffic, play, words, notes)


def chosen_engine(traffic: Traffic, play: Play) -> Literal["flow", "packet"]:
    """The engine that is asked for; `auto` takes packets where they are few, or where something needs them."""
    if play.engine != "auto":
        return play.engine
    storm = any(isinstance(fault, PfcStorm) for fault in play.faults)
    needs = storm or play.congestion_control != "none" or play.balancing == "flowlet"
    packets = float(np.ceil(traffic.size_bytes / play.mtu_bytes).sum())
    return "packet" if needs or packets <= MOST_PACKETS else "flow"
