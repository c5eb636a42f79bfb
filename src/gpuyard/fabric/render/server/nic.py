"""The NIC's queues as commands: trust, marks, pauses and DCQCN, to agree with the switches."""

from __future__ import annotations

import math

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.lossless import Dcqcn

__all__ = ["nic_commands", "rdma_name"]

PRIORITIES = range(8)


def rdma_name(port: str) -> str:
    """The name that the RDMA device behind a port is given: gpu0_eth becomes gpu0_rdma."""
    return port.replace("_eth", "_rdma") if "_eth" in port else f"{port}_rdma"


def nic_commands(fabric: Fabric) -> str:
    """A script for every server, run when the NICs are up: NVIDIA ConnectX with NVIDIA's own tools."""
    nic = fabric.lossless.nic
    paused = ",".join("1" if priority in nic.pfc_priorities else "0" for priority in PRIORITIES)
    pairs = " ".join(f"{port.port}:{rdma_name(port.port)}" for port in fabric.servers[0].interfaces)
    return f"""\
#!/bin/sh
# Queues of the NICs in a lossless fabric: run as root after each boot. `--firmware` also writes the NIC's own
# settings for congestion control, which take effect after a reset of the NIC.
set -e
for pair in {pairs}; do
  port=${{pair%%:*}}
  name=${{pair##*:}}
  pci=$(basename "$(readlink -f "/sys/class/net/$port/device")")
  rdma=$(ls "/sys/class/net/$port/device/infiniband")
  if [ "$rdma" != "$name" ]; then rdma dev set "$rdma" name "$name"; fi
  mlnx_qos -i "$port" --trust {nic.trust}
  mlnx_qos -i "$port" --dscp2prio set,{nic.roce_dscp},{nic.roce_priority}
  mlnx_qos -i "$port" --dscp2prio set,{nic.cnp_dscp},{nic.cnp_priority}
  mlnx_qos -i "$port" --pfc {paused}
  mlnx_qos -i "$port" --cable_len {math.ceil(fabric.demand.cables.server_m)}
  echo 1 > "/sys/class/net/$port/ecn/roce_np/enable/{nic.roce_priority}"
  echo 1 > "/sys/class/net/$port/ecn/roce_rp/enable/{nic.roce_priority}"
  echo {nic.cnp_dscp} > "/sys/class/net/$port/ecn/roce_np/cnp_dscp"
  echo {nic.cnp_priority} > "/sys/class/net/$port/ecn/roce_np/cnp_802p_prio"
  echo {nic.traffic_class_byte} > "/sys/class/infiniband/$name/tc/1/traffic_class"
  cma_roce_tos -d "$name" -t {nic.traffic_class_byte}
  if [ "$1" = --firmware ]; then
    mlxconfig -y -d "$pci" set CNP_DSCP_P1={nic.cnp_dscp} CNP_802P_PRIO_P1={nic.cnp_priority} ROCE_CC_PRIO_MASK_P1=255
    mlxconfig -y -d "$pci" set {_registers(nic.dcqcn)}
  fi
done
"""


def _registers(dcqcn: Dcqcn) -> str:
    """The parameters of DCQCN in the units of the NIC's registers: microseconds and Mb/s."""
    values = {
        "CLAMP_TGT_RATE": int(dcqcn.clamp_tgt_rate),
        "CLAMP_TGT_RATE_AFTER_TIME_INC": int(dcqcn.clamp_tgt_rate_after_time_inc),
        "DCE_TCP_G": dcqcn.dce_tcp_g,
        "DCE_TCP_RTT": round(dcqcn.dce_tcp_rtt_s * 1e6),
        "INITIAL_ALPHA_VALUE": dcqcn.initial_alpha,
        "MIN_TIME_BETWEEN_CNPS": round(dcqcn.min_time_between_cnps_s * 1e6),
        "RATE_REDUCE_MONITOR_PERIOD": round(dcqcn.rate_reduce_monitor_period_s * 1e6),
        "RATE_TO_SET_ON_FIRST_CNP": round(dcqcn.rate_to_set_on_first_cnp_bits_per_s / 1e6),
        "RPG_AI_RATE": round(dcqcn.rpg_ai_rate_bits_per_s / 1e6),
        "RPG_BYTE_RESET": dcqcn.rpg_byte_reset_bytes,
        "RPG_GD": dcqcn.rpg_gd,
        "RPG_HAI_RATE": round(dcqcn.rpg_hai_rate_bits_per_s / 1e6),
        "RPG_MAX_RATE": round(dcqcn.rpg_max_rate_bits_per_s / 1e6),
        "RPG_MIN_DEC_FAC": dcqcn.rpg_min_dec_fac,
        "RPG_MIN_RATE": round(dcqcn.rpg_min_rate_bits_per_s / 1e6),
        "RPG_THRESHOLD": dcqcn.rpg_threshold,
        "RPG_TIME_RESET": round(dcqcn.rpg_time_reset_s * 1e6),
    }
    return " ".join(f"{name}_P1={value}" for name, value in values.items())
