"""A simulation as a value that every engine gives, and its numbers: times, bandwidth, balance, buffers, pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from gpuyard.document import Doc
from gpuyard.simulate.network import Network
from gpuyard.simulate.packet import PacketResult
from gpuyard.simulate.result import Outcome, jain_index, max_mean_ratio
from gpuyard.simulate.routes import scale_up_switches
from gpuyard.simulate.traffic import Traffic
from gpuyard.topology import Topology
from gpuyard.units import bits_from_bytes

__all__ = [
    "Engine",
    "LinkLoad",
    "Phase",
    "Simulation",
    "Summary",
    "between_servers",
    "fabric_links",
    "hottest_links",
    "summary_of",
]

Engine = Literal["flow", "packet"]
Floats = npt.NDArray[np.float64]
HOTTEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLoad:
    """What one link, one way, carried and suffered."""

    link: str
    utilisation_ratio: Annotated[float, Doc("of its rate, until the last flow finished")]
    carried_bytes: float
    pause_s: float | None = None
    queue_peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of a collective."""

    label: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of a simulation; those that an engine does not know are missing."""

    network: str
    traffic: str
    engine: Engine
    balancing: str
    congestion_control: str
    seed: int
    hosts: int
    flows: int
    completed: int
    completion_s: Annotated[float, Doc("when the last flow that finished did")]
    total_bytes: float
    fct_mean_s: float | None = None
    fct_p50_s: float | None = None
    fct_p90_s: float | None = None
    fct_p99_s: float | None = None
    fct_max_s: float | None = None
    algorithm: str | None = None
    bus_bytes_per_s: Annotated[float | None, Doc("bus bandwidth as nccl-tests defines it")] = None
    algorithm_bytes_per_s: Annotated[float | None, Doc("size over time")] = None
    nccl_s: Annotated[float | None, Doc("what NCCL takes on such links, by the time model fitted on measurements")] = (
        None
    )
    nccl_bus_bytes_per_s: float | None = None
    nccl_algorithm: str | None = None
    flow_jain_ratio: Annotated[float | None, Doc("Jain's index of the rates of flows between servers")] = None
    link_mmr_ratio: Annotated[float | None, Doc("fullest over mean load of the links between switches")] = None
    link_jain_ratio: Annotated[float | None, Doc("Jain's index of the loads of the links between switches")] = None
    link_max_ratio: Annotated[float | None, Doc("utilisation of the fullest link")] = None
    drops: int | None = None
    pauses: int | None = None
    pause_s: Annotated[float | None, Doc("summed over links")] = None
    pause_max_s: Annotated[float | None, Doc("of the link that was paused longest")] = None
    marks: int | None = None
    notifications: Annotated[int | None, Doc("CNPs")] = None
    timeouts: int | None = None
    failed_flows: int | None = None
    buffer_peak_bytes: Annotated[int | None, Doc("of the fullest switch")] = None
    queue_peak_bytes: int | None = None
    storms: Annotated[int | None, Doc("ports that the watchdog found stuck")] = None
    deadlock: Annotated[tuple[str, ...], Doc("links that wait for each other in a circle at the end")] = ()
    events: int | None = None
    hottest: tuple[LinkLoad, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Simulation:
    """Everything about one run; `outcome` is missing where flows were taken together in rounds."""

    summary: Summary
    network: Network
    topology: Annotated[Topology | None, Doc("for drawing; None: made from the network when it is drawn")] = None
    traffic: Traffic | None = None
    outcome: Outcome | None = None
    packets: PacketResult | None = None
    phases: tuple[Phase, ...] = ()
    link_bytes: Floats | None = None

    @property
    def utilisation(self) -> Floats | None:
        """The share of its rate that every link carried."""
        if self.outcome is not None:
            return self.outcome.link_utilisation
        if self.link_bytes is None or not self.summary.completion_s:
            return None
        full = self.network.rate_bits_per_s * self.summary.completion_s
        share: Floats = bits_from_bytes(1.0) * self.link_bytes / full
        return share


def fabric_links(network: Network) -> npt.NDArray[np.bool_]:
    """The links between switches; those of hosts where there are no others."""
    hosts = network.host_count
    between: npt.NDArray[np.bool_] = (network.link_from >= hosts) & (network.link_to >= hosts)
    return between if between.any() else np.ones(network.link_count, dtype=np.bool_)


def hottest_links(
    network: Network, utilisation: Floats, carried: Floats, packets: PacketResult | None = None, count: int = HOTTEST
) -> tuple[LinkLoad, ...]:
    """The fullest links, fullest first; links inside servers are left out."""
    inside = _scale_up(network)
    order = np.argsort(np.where(inside, np.inf, -utilisation), kind="stable")[:count]
    return tuple(
        LinkLoad(
            link=network.link_name(int(link)),
            utilisation_ratio=float(utilisation[link]),
            carried_bytes=float(carried[link]),
            pause_s=None if packets is None else float(packets.link_pause_s[link]),
            queue_peak_bytes=None if packets is None else int(packets.link_queue_peak_bytes[link]),
        )
        for link in order
        if carried[link] > 0 and not inside[link]
    )


def _scale_up(network: Network) -> npt.NDArray[np.bool_]:
    """Links of switches that join hosts of one server and nothing else."""
    inside = scale_up_switches(network)
    found: npt.NDArray[np.bool_] = inside[network.link_from] | inside[network.link_to]
    return found


def between_servers(network: Network, traffic: Traffic) -> npt.NDArray[np.bool_]:
    """The flows that leave their server."""
    away: npt.NDArray[np.bool_] = network.server[traffic.source] != network.server[traffic.target]
    return away


def summary_of(
    network: Network,
    outcome: Outcome,
    packets: PacketResult | None,
    *,
    words: tuple[str, str],
    balancing: str,
    congestion_control: str,
    seed: int,
    events: int,
    notes: Sequence[str] = (),
    far: npt.NDArray[np.bool_] | None = None,
) -> Summary:
    """The numbers of flows that were simulated one by one; `words` name the network and the traffic.

    Rates are compared among the flows of `far`: inside a server they are of another kind.
    """
    done = ~np.isnan(outcome.finish_s)
    alike = done & (outcome.completion_s > 0) & (far if far is not None and far.any() else True)
    utilisation, between = outcome.link_utilisation, fabric_links(network)
    return Summary(
        network=words[0],
        traffic=words[1],
        engine="packet" if packets else "flow",
        balancing=balancing,
        congestion_control=congestion_control,
        seed=seed,
        hosts=network.host_count,
        flows=len(outcome.finish_s),
        completed=int(np.count_nonzero(done)),
        completion_s=outcome.duration_s,
        total_bytes=float(outcome.size_bytes.sum()),
        fct_mean_s=_known(outcome.mean_completion_s),
        fct_p50_s=_known(outcome.percentile_s(50)),
        fct_p90_s=_known(outcome.percentile_s(90)),
        fct_p99_s=_known(outcome.percentile_s(99)),
        fct_max_s=_known(outcome.percentile_s(100)),
        flow_jain_ratio=jain_index(outcome.throughput_bytes_per_s[alike]),
        link_mmr_ratio=max_mean_ratio(utilisation[between]),
        link_jain_ratio=jain_index(utilisation[between]),
        link_max_ratio=float(utilisation.max()) if len(utilisation) else None,
        events=events,
        hottest=hottest_links(network, utilisation, outcome.link_bytes, packets),
        notes=tuple(notes),
        **(_counted(network, packets) if packets else {}),
    )


class _Counted(TypedDict, total=False):
    """What only packets tell."""

    drops: int
    pauses: int
    pause_s: float
    pause_max_s: float
    marks: int
    notifications: int
    timeouts: int
    failed_flows: int
    buffer_peak_bytes: int
    queue_peak_bytes: int
    storms: int
    deadlock: tuple[str, ...]


def _counted(network: Network, packets: PacketResult) -> _Counted:
    """The tallies of the packet engine."""
    counters = packets.counters
    return {
        "drops": counters.dropped_count,
        "pauses": counters.pause_count,
        "pause_s": float(packets.link_pause_s.sum()),
        "pause_max_s": float(packets.link_pause_s.max()),
        "marks": counters.marked_count,
        "notifications": counters.cnp_count,
        "timeouts": counters.timeout_count,
        "failed_flows": counters.failed_flow_count,
        "buffer_peak_bytes": int(packets.node_peak_bytes.max()),
        "queue_peak_bytes": int(packets.link_queue_peak_bytes.max()),
        "storms": len(packets.storms),
        "deadlock": tuple(network.link_name(link) for link in packets.deadlock),
    }


def _known(value: float) -> float | None:
    """The number; None where there is none."""
    return None if np.isnan(value) else value
