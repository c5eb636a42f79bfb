"""The NIC's side of a lossless class: trust, marks, PFC, and the parameters of DCQCN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import Doc
from gpuyard.fabric.lossless.classes import Qos
from gpuyard.units import BITS_PER_S, BYTES, DURATION

__all__ = ["DCQCN_DEFAULT", "FACTORY_TRUST", "Dcqcn", "Nic", "nic_for"]

# Out of the factory a ConnectX trusts the PCP bits: DSCP marks are ignored until this is changed.
FACTORY_TRUST = "pcp"
ECN_CAPABLE = 0b10  # ECT(0), the low bits of the traffic-class byte


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcqcn:
    """Rate control of the NIC, by its names in mlxconfig; the defaults are NVIDIA's."""

    clamp_tgt_rate: bool = False
    clamp_tgt_rate_after_time_inc: bool = True
    dce_tcp_g: Annotated[int, Doc("of 1024: weight of the past in alpha")] = 1019
    dce_tcp_rtt_s: Annotated[float, DURATION, Doc("between updates of alpha")] = 1e-6
    initial_alpha: Annotated[int, Doc("of 1024")] = 1023
    min_time_between_cnps_s: Annotated[float, DURATION] = 4e-6
    rate_reduce_monitor_period_s: Annotated[float, DURATION] = 4e-6
    rate_to_set_on_first_cnp_bits_per_s: Annotated[float, BITS_PER_S, Doc("0: the line rate")] = 0.0
    rpg_ai_rate_bits_per_s: Annotated[float, BITS_PER_S, Doc("added in each additive step")] = 5e6
    rpg_byte_reset_bytes: Annotated[int, BYTES, Doc("register value; 64 bytes each")] = 32767
    rpg_gd: Annotated[int, Doc("alpha is shifted right by it when the rate is cut")] = 11
    rpg_hai_rate_bits_per_s: Annotated[float, BITS_PER_S, Doc("added in each hyper step")] = 50e6
    rpg_max_rate_bits_per_s: Annotated[float, BITS_PER_S, Doc("0: the line rate")] = 0.0
    rpg_min_dec_fac: Annotated[int, Doc("per cent of the rate that a cut leaves at least")] = 50
    rpg_min_rate_bits_per_s: Annotated[float, BITS_PER_S] = 1e6
    rpg_threshold: int = 1
    rpg_time_reset_s: Annotated[float, DURATION] = 300e-6
    source: str = "https://networking-docs.nvidia.com/doca/archive/3-4-0/dcqcn-cc-parameters (2026-11-15)"


DCQCN_DEFAULT = Dcqcn()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """What is set on every NIC of the fabric."""

    trust: Literal["dscp", "pcp"]
    roce_dscp: int
    roce_priority: int
    cnp_dscp: int
    cnp_priority: int
    pfc_priorities: tuple[int, ...]
    ecn: bool
    dcqcn: Dcqcn = DCQCN_DEFAULT

    @property
    def traffic_class_byte(self) -> int:
        """The byte of the IP header: the mark, and that ECN may be set on it."""
        return self.roce_dscp << 2 | (ECN_CAPABLE if self.ecn else 0)


ROCE_DSCP = 26
CNP_DSCP = 48


def nic_for(qos: Qos) -> Nic:
    """The setting of a NIC that agrees with the switches."""
    roce, cnp = qos.roce, qos.cnp
    return Nic(
        trust="dscp",
        roce_dscp=ROCE_DSCP if ROCE_DSCP in roce.dscp else roce.dscp[0],
        roce_priority=roce.priority,
        cnp_dscp=CNP_DSCP if CNP_DSCP in cnp.dscp else cnp.dscp[0],
        cnp_priority=cnp.priority,
        pfc_priorities=qos.pfc.priorities,
        ecn=True,
    )
