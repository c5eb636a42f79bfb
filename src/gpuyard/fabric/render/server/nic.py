"""Commands that configure trust, DSCP, PFC and DCQCN on NICs to match the switches."""

from __future__ import annotations

import math

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.lossless.nic import DcqcnConfig

PRIORITIES = range(8)
NIC_LABELS = {
    "thor2": "Broadcom Thor 2",
    "pollara": "AMD Pollara",
    "unknown": "of a vendor that the demand does not name",
}


def rdma_name(port: str) -> str:
    """Return the name of the RDMA device of a port: gpu0_rdma for gpu0_eth."""
    return port.replace("_eth", "_rdma") if "_eth" in port else f"{port}_rdma"


def nic_commands(fabric: Fabric) -> str:
    """Return the QoS script of every server: NVIDIA's tools, or what to set with other tools."""
    nic = fabric.lossless.nic
    if fabric.demand.nic_vendor != "connectx":
        return _settings_to_make(fabric)
    paused = ",".join("1" if priority in nic.pfc_priorities else "0" for priority in PRIORITIES)
    pairs = " ".join(f"{port.port}:{rdma_name(port.port)}" for port in fabric.servers[0].interfaces)
    return f"""\
#!/bin/sh
# NIC queues for a lossless fabric: run as root after each boot. `--firmware` also writes congestion
# control settings to the NIC, which take effect after a reset of the NIC.
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
    mlxconfig -y -d "$pci" set CNP_DSCP_P1={nic.cnp_dscp} CNP_802P_PRIO_P1={nic.cnp_priority} \\
      ROCE_CC_PRIO_MASK_P1=255
    mlxconfig -y -d "$pci" set {_registers(nic.dcqcn)}
  fi
done
"""


def _settings_to_make(fabric: Fabric) -> str:
    """A script that changes nothing and names the settings: these NICs have other tools."""
    nic, vendor = fabric.lossless.nic, fabric.demand.nic_vendor
    label = NIC_LABELS[vendor]
    return f"""\
#!/bin/sh
# NIC queues for a lossless fabric. The NIC is {label}; gpuyard writes commands for NVIDIA
# ConnectX only (--nic-vendor connectx). Make these settings with the vendor's own tool.
cat >&2 <<'SETTINGS'
nothing was changed: no commands for {label}; set on every NIC
  trust:              {nic.trust}
  RDMA traffic:       DSCP {nic.roce_dscp}, priority {nic.roce_priority}
  notifications (CNP): DSCP {nic.cnp_dscp}, priority {nic.cnp_priority}
  PFC:                priority {", ".join(map(str, sorted(nic.pfc_priorities)))} only
  ECN:                enabled for priority {nic.roce_priority}
SETTINGS
exit 1
"""


def _registers(dcqcn: DcqcnConfig) -> str:
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
