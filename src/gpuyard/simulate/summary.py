"""Summary of a network simulation: times, bandwidth, balance, buffers, pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from gpuyard.document.field_types import Doc
from gpuyard.simulate.network import Network, scale_up_switches
from gpuyard.simulate.result import FlowOutcome, jain_index, max_mean_ratio
from gpuyard.simulate.traffic import FlowSet
from gpuyard.topology.topology import Topology
from gpuyard.units import bits_from_bytes

if TYPE_CHECKING:  # the packet engine imports Numba
    from gpuyard.simulate.packet.packet_engine import PacketResult

Engine = Literal["flow", "packet"]
Floats = npt.NDArray[np.float64]
HOTTEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLoad:
    """Load, pauses and queue of one link, one direction."""

    link: str
    utilisation_ratio: Annotated[float, Doc("of its rate, until the last flow finished")]
    carried_bytes: float
    pause_s: float | None = None
    queue_peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase of a collective."""

    label: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSummary:
    """Results of a simulation; None where the engine does not model it."""

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
    algorithm_bytes_per_s: Annotated[
        float | None, Doc("message size over completion time (algbw)")
    ] = None
    nccl_s: Annotated[
        float | None, Doc("what NCCL takes on such links, by the time model fitted on measurements")
    ] = None
    nccl_bus_bytes_per_s: float | None = None
    nccl_algorithm: str | None = None
    flow_jain_ratio: Annotated[
        float | None, Doc("Jain's index of the rates of flows between servers")
    ] = None
    link_mmr_ratio: Annotated[
        float | None, Doc("highest over mean load of the links between switches")
    ] = None
    link_jain_ratio: Annotated[
        float | None, Doc("Jain's index of the loads of the links between switches")
    ] = None
    link_max_ratio: Annotated[float | None, Doc("utilisation of the hottest link")] = None
    drops: int | None = None
    pauses: int | None = None
    pause_s: Annotated[float | None, Doc("summed over links")] = None
    pause_max_s: Annotated[float | None, Doc("of the link that was paused longest")] = None
    marks: int | None = None
    notifications: Annotated[int | None, Doc("CNPs")] = None
    timeouts: int | None = None
    failed_flows: int | None = None
    buffer_peak_bytes: Annotated[int | None, Doc("highest of any switch")] = None
    queue_peak_bytes: int | None = None
    storms: Annotated[int | None, Doc("ports that the watchdog found stuck")] = None
    deadlock: Annotated[
        tuple[str, ...], Doc("links that wait for each other in a cycle at the end")
    ] = ()
    events: int | None = None
    hottest: tuple[LinkLoad, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SimulationResult:
    """Everything about one run; no `outcome` if it was simulated in rounds."""

    summary: NetworkSummary
    network: Network
    topology: Annotated[
        Topology | None, Doc("for drawing; None: made from the network when it is drawn")
    ] = None
    traffic: FlowSet | None = None
    outcome: FlowOutcome | None = None
    packets: PacketResult | None = None
    phases: tuple[Phase, ...] = ()
    link_bytes: Floats | None = None

    @property
    def utilisation(self) -> Floats | None:
        if self.outcome is not None:
            return self.outcome.link_utilisation
        if self.link_bytes is None or not self.summary.completion_s:
            return None
        full = self.network.rate_bits_per_s * self.summary.completion_s
        share: Floats = bits_from_bytes(1.0) * self.link_bytes / full
        return share


def fabric_links(network: Network) -> npt.NDArray[np.bool_]:
    """Return the links between switches, or those of hosts if there are no others."""
    hosts = network.host_count
    between: npt.NDArray[np.bool_] = (network.link_from >= hosts) & (network.link_to >= hosts)
    return between if between.any() else np.ones(network.link_count, dtype=np.bool_)


def hottest_links(
    network: Network,
    utilisation: Floats,
    carried: Floats,
    packets: PacketResult | None = None,
    count: int = HOTTEST,
) -> tuple[LinkLoad, ...]:
    """Return the hottest links first, without those inside servers."""
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
    inside = scale_up_switches(network)
    scale_up: npt.NDArray[np.bool_] = inside[network.link_from] | inside[network.link_to]
    return scale_up


def between_servers(network: Network, traffic: FlowSet) -> npt.NDArray[np.bool_]:
    """Return which flows leave their server."""
    away: npt.NDArray[np.bool_] = network.server[traffic.source] != network.server[traffic.target]
    return away


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Labels and settings of a simulation, for its summary."""

    network: str
    traffic: str
    balancing: str
    congestion_control: str = "none"
    seed: int = 1
    notes: Sequence[str] = ()


def summary_of(
    network: Network,
    outcome: FlowOutcome,
    packets: PacketResult | None,
    run: RunInfo,
    *,
    events: int,
    far: npt.NDArray[np.bool_] | None = None,
) -> NetworkSummary:
    """Summarise flows that were simulated one by one.

    Rates are compared among the flows of `far`: inside a server they are of another kind.
    """
    done = ~np.isnan(outcome.finish_s)
    alike = done & (outcome.completion_s > 0) & (far if far is not None and far.any() else True)
    utilisation, between = outcome.link_utilisation, fabric_links(network)
    return NetworkSummary(
        network=run.network,
        traffic=run.traffic,
        engine="packet" if packets else "flow",
        balancing=run.balancing,
        congestion_control=run.congestion_control,
        seed=run.seed,
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
        notes=tuple(run.notes),
        **(_counted(network, packets) if packets else {}),
    )


class _Counted(TypedDict, total=False):
    """Fields that only the packet engine knows."""

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
    return None if np.isnan(value) else value
