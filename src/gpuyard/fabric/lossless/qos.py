"""QoS profiles: traffic classes with DSCP, priority and queue, ECN, PFC and buffer partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc
from gpuyard.units import BYTES, RATIO

Kind = Literal["roce", "cnp", "default", "other"]
Scope = Literal["all", "server-facing"]
Ratio = Annotated[float, RATIO]
DSCP_COUNT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficClass:
    """A traffic class, from its DSCP to its queue."""

    kind: Kind
    label: Annotated[str, Doc("its name in the switch OS")]
    dscp: Annotated[
        tuple[int, ...],
        Doc("empty: every DSCP that no other class has"),
    ]
    traffic_class: int
    priority: Annotated[int, Doc("802.1p, the unit of PFC")]
    queue: int
    lossless: bool = False
    schedule: Literal["strict", "weighted"] = "weighted"
    share_ratio: Annotated[Ratio | None, Doc("of the port; the cap of a strict queue")] = None


def roce_classes(roce_dscp: tuple[int, ...], cnp_dscp: tuple[int, ...]) -> tuple[TrafficClass, ...]:
    """Return the classes of NVIDIA's RoCE default: lossless 3, strict CNP 6, half for the rest."""
    roce = TrafficClass(
        kind="roce",
        label="roce",
        dscp=roce_dscp,
        traffic_class=3,
        priority=3,
        queue=3,
        lossless=True,
        share_ratio=0.50,
    )
    cnp = TrafficClass(
        kind="cnp",
        label="cnp",
        dscp=cnp_dscp,
        traffic_class=6,
        priority=6,
        queue=6,
        schedule="strict",
    )
    rest = TrafficClass(
        kind="default",
        label="default",
        dscp=(),
        traffic_class=0,
        priority=0,
        queue=0,
        share_ratio=0.50,
    )
    return roce, cnp, rest


@dataclass(frozen=True, slots=True, kw_only=True)
class EcnConfig:
    """ECN marking of the lossless queue, with rising probability between two thresholds."""

    mark_ratio: Annotated[Ratio, Doc("probability at the upper threshold")]
    low_bytes: Annotated[int | None, BYTES] = None
    high_bytes: Annotated[int | None, BYTES] = None
    low_fill_ratio: Annotated[
        Ratio | None, Doc("of the queue's limit, for OSes with relative thresholds")
    ] = None
    high_fill_ratio: Ratio | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcConfig:
    """The priorities with PFC, and the ports on which it is enabled."""

    priorities: tuple[int, ...]
    scope: Scope = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferPartition:
    """Shares of the packet buffer; None where the OS default applies."""

    ingress_lossless_ratio: Ratio
    ingress_headroom_ratio: Ratio
    ingress_lossy_ratio: Ratio
    egress_lossless_ratio: Ratio
    egress_lossy_ratio: Ratio
    dedicated_ingress_ratio: Ratio | None = None
    dedicated_egress_ratio: Ratio | None = None
    dynamic_threshold: Annotated[
        int | None, Doc("index of the alpha of a queue: its share of the free buffer")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QosProfile:
    """A published QoS configuration for RDMA, or one derived from it."""

    name: str
    classes: tuple[TrafficClass, ...]
    pfc: PfcConfig
    ecn: EcnConfig
    source: str
    partition: BufferPartition | None = None
    note: str = ""

    def of_kind(self, kind: Kind) -> TrafficClass:
        return next(one for one in self.classes if one.kind == kind)

    def class_of(self, dscp: int) -> TrafficClass:
        claimed = next((one for one in self.classes if dscp in one.dscp), None)
        return claimed or self.of_kind("default")

    @property
    def roce(self) -> TrafficClass:
        return self.of_kind("roce")

    @property
    def cnp(self) -> TrafficClass:
        return self.of_kind("cnp")

    @property
    def default(self) -> TrafficClass:
        return self.of_kind("default")
