"""A switch as configured, in one model for every switch OS."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc
from gpuyard.fabric.configs.statement import Statement
from gpuyard.fabric.routing import Bfd
from gpuyard.units import BYTES, RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEcn:
    """ECN marking of an egress queue: thresholds in bytes, or as a ratio of the queue's limit."""

    queue: int
    unit: Literal["bytes", "ratio"]
    low: float
    high: float
    mark_ratio: Annotated[float, RATIO]

    def __str__(self) -> str:
        if self.unit == "bytes":
            ends = f"{self.low:,.0f} to {self.high:,.0f} bytes"
        else:
            ends = f"{self.low:.0%} to {self.high:.0%} of the queue"
        return f"queue {self.queue}: {ends}, {self.mark_ratio:.0%} marked"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSchedule:
    """The scheduler of an egress queue."""

    queue: int
    kind: Literal["strict", "weighted"]
    share_ratio: Annotated[float | None, RATIO] = None

    def __str__(self) -> str:
        share = "" if self.share_ratio is None else f" {self.share_ratio:.0%}"
        return f"queue {self.queue}: {self.kind}{share}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferProfile:
    """The buffer of a priority group or queue of a port."""

    target: Annotated[str, Doc("ingress 3, egress 0-2")]
    settings: Annotated[tuple[tuple[str, str], ...], Doc("name and value, as the OS has them")]

    def __str__(self) -> str:
        return f"{self.target}: " + " ".join(f"{name} {value}" for name, value in self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortQos:
    """The lossless class on one port, after every name is resolved."""

    queues: Annotated[
        tuple[tuple[int, int], ...], Doc("DSCP and queue, of the DSCPs that are classified")
    ] = ()
    pfc_priorities: tuple[int, ...] = ()
    pfc_queues: Annotated[tuple[tuple[int, int], ...], Doc("PFC priority and queue")] = ()
    pfc_dscp: Annotated[
        tuple[int, ...] | None, Doc("DSCPs that trigger PFC; None: those of the priority")
    ] = None
    ecn: tuple[QueueEcn, ...] = ()
    schedules: tuple[QueueSchedule, ...] = ()
    buffers: tuple[BufferProfile, ...] = ()
    cable_m: Annotated[float | None, Doc("that headroom is configured for")] = None
    watchdog: Annotated[tuple[str, ...], Doc("its settings; empty: off")] = ()

    def queue_of(self, dscp: int) -> int | None:
        return dict(self.queues).get(dscp)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredPort:
    """A port of a switch, as configured."""

    name: str
    where: Annotated[str, Doc("file and line")] = ""
    description: str = ""
    mtu_bytes: Annotated[int | None, BYTES] = None
    ip_mtu_bytes: Annotated[int | None, BYTES] = None
    speed_bits_per_s: float | None = None
    addresses: tuple[str, ...] = ()
    vrf: str | None = None
    is_enabled: bool = True
    settings: Annotated[tuple[str, ...], Doc("further settings, as text")] = ()
    qos: PortQos = PortQos()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredNeighbour:
    """A BGP neighbour, with what it inherits from its group."""

    peer: Annotated[str, Doc("address, or interface of an unnumbered session")]
    where: str = ""
    group: str = ""
    vrf: str | None = None
    asns: Annotated[tuple[str, ...], Doc("accepted; `external`: any but its own")] = ()
    local_address: str | None = None
    families: tuple[str, ...] = ()
    exports: Annotated[tuple[str, ...], Doc("policies of routes sent, in order")] = ()
    imports: tuple[str, ...] = ()
    bfd: Bfd | None = None
    is_multihop: bool = False
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTerm:
    """One term of a routing policy."""

    name: str
    conditions: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def rejects(self) -> bool:
        return "reject" in self.actions


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingPolicy:
    """A routing policy (policy-statement, route-map): its terms in order."""

    name: str
    terms: tuple[PolicyTerm, ...]

    def rejected(self) -> frozenset[str]:
        """Return the names of community lists whose routes the policy rejects."""
        return frozenset(
            condition.removeprefix("community ")
            for term in self.terms
            if term.rejects
            for condition in term.conditions
            if condition.startswith("community ")
        )

    def added(self) -> frozenset[str]:
        """Return the communities, or names of them, that the policy adds."""
        return frozenset(
            action.removeprefix("add ")
            for term in self.terms
            for action in term.actions
            if action.startswith("add ")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredBgp:
    """BGP of a switch: its AS number, multipath and neighbours."""

    asn: int | None = None
    where: str = ""
    router_id: str | None = None
    max_paths_count: Annotated[int | None, Doc("None: the OS's default")] = None
    is_multipath: Annotated[bool, Doc("paths through different AS numbers are equal")] = False
    neighbours: tuple[ConfiguredNeighbour, ...] = ()
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    """The configuration of a switch; statements outside the model are listed, none is dropped."""

    hostname: str
    os: str
    file: str
    release: Annotated[str | None, Doc("of the OS, where the file states it")] = None
    ports: tuple[ConfiguredPort, ...] = ()
    loopbacks: tuple[str, ...] = ()
    bgp: ConfiguredBgp = ConfiguredBgp()
    policies: tuple[RoutingPolicy, ...] = ()
    communities: tuple[tuple[str, tuple[str, ...]], ...] = ()
    balancing: Annotated[tuple[str, ...], Doc("settings of load balancing, as text")] = ()
    buffers: Annotated[tuple[str, ...], Doc("settings of the packet buffer, as text")] = ()
    vrfs: Annotated[tuple[tuple[str, tuple[str, ...]], ...], Doc("name and settings")] = ()
    undefined: Annotated[tuple[str, ...], Doc("names that are used and not defined")] = ()
    other: tuple[Statement, ...] = field(default=(), repr=False)
    unread: tuple[Statement, ...] = field(default=(), repr=False)
    statements: tuple[Statement, ...] = field(default=(), repr=False)

    def port(self, name: str) -> ConfiguredPort | None:
        return next((port for port in self.ports if port.name == name), None)

    def policy(self, name: str) -> RoutingPolicy | None:
        return next((policy for policy in self.policies if policy.name == name), None)

    def members(self, community: str) -> frozenset[str]:
        """Return the values of a community list; a value names itself."""
        return frozenset(dict(self.communities).get(community, (community,)))

    def marks(self, neighbour: ConfiguredNeighbour) -> frozenset[str]:
        """Return the communities set on routes sent to a neighbour."""
        return self._values(policy.added() for policy in self.exports(neighbour))

    def refuses(self, neighbour: ConfiguredNeighbour) -> frozenset[str]:
        """Return the communities of routes that are never sent to a neighbour."""
        return self._values(policy.rejected() for policy in self.exports(neighbour))

    def exports(self, neighbour: ConfiguredNeighbour) -> tuple[RoutingPolicy, ...]:
        names = set(neighbour.exports)
        return tuple(policy for policy in self.policies if policy.name in names)

    def _values(self, names: Iterable[frozenset[str]]) -> frozenset[str]:
        return frozenset(value for some in names for name in some for value in self.members(name))
