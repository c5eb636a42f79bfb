"""The lossless class of a fabric: QoS, PFC watchdog, buffers, NICs and load balancing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc
from gpuyard.fabric.lossless.balancing import LoadBalancing
from gpuyard.fabric.lossless.buffers import BufferPlan
from gpuyard.fabric.lossless.headroom import PortHeadroom
from gpuyard.fabric.lossless.nic import NicConfig
from gpuyard.fabric.lossless.qos import PfcConfig, QosProfile
from gpuyard.fabric.lossless.watchdog import WatchdogConfig
from gpuyard.topology.nodes import Role

Transport = Literal["roce", "infiniband", "lossy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """The buffer plan of the switch of a role that needs most headroom."""

    role: Role
    plan: BufferPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Lossless:
    """The settings that keep RDMA traffic from being dropped."""

    transport: Annotated[
        Transport, Doc("lossy: no PFC; infiniband: credit-based, nothing to configure")
    ]
    qos: QosProfile
    watchdog: WatchdogConfig
    nic: NicConfig
    balancing: LoadBalancing
    buffers: Annotated[tuple[Buffers, ...], Doc("one per role; empty without PFC")] = ()
    notes: Annotated[tuple[str, ...], Doc("what is unknown or not covered")] = ()

    @property
    def pfc(self) -> PfcConfig:
        return self.qos.pfc

    def headroom(self, role: Role, speed_bits_per_s: float, cable_m: float) -> PortHeadroom | None:
        """Return the headroom of a port; None if not published or without PFC."""
        for buffers in self.buffers:
            if buffers.role == role:
                for group in buffers.plan.groups:
                    if (group.speed_bits_per_s, group.cable_m) == (speed_bits_per_s, cable_m):
                        return group.headroom
        return None
