"""Kinds of traffic and the way each takes through a switch: DSCP, traffic class, priority, queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import Doc
from gpuyard.units import BYTES, RATIO

__all__ = ["Ecn", "Kind", "Partition", "Pfc", "Qos", "Scope", "TrafficClass"]

Kind = Literal["roce", "cnp", "default", "other"]
Scope = Literal["all", "server-facing"]
Ratio = Annotated[float, RATIO]
DSCP_COUNT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficClass:
    """One kind of traffic, from its mark to its queue."""

    kind: Kind
    label: Annotated[str, Doc("what the switch OS calls it")]
    dscp: Annotated[tuple[int, ...], Doc("the marks that belong to it; none: every mark that nobody else claims")]
    traffic_class: int
    priority: Annotated[int, Doc("802.1p, which PFC pauses by")]
    queue: int
    lossless: bool = False
    schedule: Literal["strict", "weighted"] = "weighted"
    share_ratio: Annotated[Ratio | None, Doc("of the port; of a strict queue, its cap")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ecn:
    """Between these fills of the lossless queue, packets are marked with rising probability."""

    mark_ratio: Annotated[Ratio, Doc("probability at the upper threshold")]
    low_bytes: Annotated[int | None, BYTES] = None
    high_bytes: Annotated[int | None, BYTES] = None
    low_fill_ratio: Annotated[Ratio | None, Doc("of what the queue may hold, where the OS counts so")] = None
    high_fill_ratio: Ratio | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pfc:
    """Which priorities may be paused, and on which ports."""

    priorities: tuple[int, ...]
    scope: Scope = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """How the packet memory is divided, as shares; None where the OS is not told."""

    ingress_lossless_ratio: Ratio
    ingress_headroom_ratio: Ratio
    ingress_lossy_ratio: Ratio
    egress_lossless_ratio: Ratio
    egress_lossy_ratio: Ratio
    dedicated_ingress_ratio: Ratio | None = None
    dedicated_egress_ratio: Ratio | None = None
    dynamic_threshold: Annotated[int | None, Doc("index of the share of free memory that one queue may take")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """A published treatment of RDMA traffic, or one derived from it."""

    name: str
    classes: tuple[TrafficClass, ...]
    pfc: Pfc
    ecn: Ecn
    source: str
    partition: Partition | None = None
    note: str = ""

    def of_kind(self, kind: Kind) -> TrafficClass:
        """The first class of that kind."""
        return next(each for each in self.classes if each.kind == kind)

    def class_of(self, dscp: int) -> TrafficClass:
        """Where a packet with this mark goes."""
        claimed = next((each for each in self.classes if dscp in each.dscp), None)
        return claimed or self.of_kind("default")

    @property
    def roce(self) -> TrafficClass:
        """RDMA data: must not be dropped."""
        return self.of_kind("roce")

    @property
    def cnp(self) -> TrafficClass:
        """Congestion notifications: must not wait."""
        return self.of_kind("cnp")

    @property
    def default(self) -> TrafficClass:
        """Everything else."""
        return self.of_kind("default")
