"""NIC settings of the lossless class: trust, DSCP, PFC and DCQCN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc
from gpuyard.fabric.lossless.qos import QosProfile
from gpuyard.units import BITS_PER_S, BYTES, DURATION

ECN_CAPABLE = 0b10  # ECT(0), the low bits of the traffic-class byte


@dataclass(frozen=True, slots=True, kw_only=True)
class DcqcnConfig:
    """DCQCN parameters by their mlxconfig names, with NVIDIA's defaults."""

    clamp_tgt_rate: bool = False
    clamp_tgt_rate_after_time_inc: bool = True
    dce_tcp_g: Annotated[int, Doc("of 1024: weight of the previous alpha")] = 1019
    dce_tcp_rtt_s: Annotated[float, DURATION, Doc("between updates of alpha")] = 1e-6
    initial_alpha: Annotated[int, Doc("of 1024")] = 1023
    min_time_between_cnps_s: Annotated[float, DURATION] = 4e-6
    rate_reduce_monitor_period_s: Annotated[float, DURATION] = 4e-6
    rate_to_set_on_first_cnp_bits_per_s: Annotated[float, BITS_PER_S, Doc("0: the line rate")] = 0.0
    rpg_ai_rate_bits_per_s: Annotated[float, BITS_PER_S, Doc("added in each additive step")] = 5e6
    rpg_byte_reset_bytes: Annotated[int, BYTES, Doc("register value; 64 bytes each")] = 32767
    rpg_gd: Annotated[int, Doc("right shift of alpha at a rate cut")] = 11
    rpg_hai_rate_bits_per_s: Annotated[float, BITS_PER_S, Doc("added in each hyper step")] = 50e6
    rpg_max_rate_bits_per_s: Annotated[float, BITS_PER_S, Doc("0: the line rate")] = 0.0
    rpg_min_dec_fac: Annotated[int, Doc("minimum percentage of the rate after a cut")] = 50
    rpg_min_rate_bits_per_s: Annotated[float, BITS_PER_S] = 1e6
    rpg_threshold: int = 1
    rpg_time_reset_s: Annotated[float, DURATION] = 300e-6
    source: str = (
        "https://networking-docs.nvidia.com/doca/archive/3-4-0/dcqcn-cc-parameters (2026-11-15)"
    )


DCQCN_DEFAULT = DcqcnConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class NicConfig:
    """Settings of every NIC of the fabric."""

    trust: Literal["dscp", "pcp"]
    roce_dscp: int
    roce_priority: int
    cnp_dscp: int
    cnp_priority: int
    pfc_priorities: tuple[int, ...]
    ecn: bool
    dcqcn: DcqcnConfig = DCQCN_DEFAULT

    @property
    def traffic_class_byte(self) -> int:
        """The traffic-class byte of the IP header: DSCP and ECN-capable."""
        return self.roce_dscp << 2 | (ECN_CAPABLE if self.ecn else 0)


ROCE_DSCP = 26
CNP_DSCP = 48


def nic_for(qos: QosProfile) -> NicConfig:
    """Return NIC settings that match the switches."""
    roce, cnp = qos.roce, qos.cnp
    return NicConfig(
        trust="dscp",
        roce_dscp=ROCE_DSCP if ROCE_DSCP in roce.dscp else roce.dscp[0],
        roce_priority=roce.priority,
        cnp_dscp=CNP_DSCP if CNP_DSCP in cnp.dscp else cnp.dscp[0],
        cnp_priority=cnp.priority,
        pfc_priorities=qos.pfc.priorities,
        ecn=True,
    )
