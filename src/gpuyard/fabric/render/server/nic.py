"""Commands that configure trust, DSCP, PFC and DCQCN on NICs to match the switches."""

from __future__ import annotations

import math

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.lossless.nic import DcqcnConfig

PRIORITIES = range(8)


def rdma_name(port: str) -> str:
    """Return the name of the RDMA device of a port: gpu0_rdma for gpu0_eth."""
    return port.replace("_eth", "_rdma") if "_eth" in port else f"{port}_rdma"


def nic_commands(fabric: Fabric) -> str:
    """Return the QoS script of every server, with the tools of the NIC's vendor."""
    scripts = {"connectx": _connectx, "thor2": _thor2, "pollara": _pollara}
    return scripts.get(fabric.demand.nic_vendor, _settings_to_make)(fabric)


def _connectx(fabric: Fabric) -> str:
    nic = fabric.lossless.nic
    paused = ",".join("1" if priority in nic.pfc_priorities else "0" for priority in PRIORITIES)
    return f"""\
#!/bin/sh
# NIC queues for a lossless fabric: run as root after each boot. `--firmware` also writes congestion
# control settings to the NIC, which take effect after a reset of the NIC.
set -e
for pair in {_pairs(fabric)}; do
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


def _thor2(fabric: Fabric) -> str:
    """Options as bnxt_setupcc.sh 236.1.155.0 lists them; mode 3 is PFC and congestion control."""
    nic = fabric.lossless.nic
    return f"""\
#!/bin/sh
# NIC queues for a lossless fabric: run as root after each boot.
set -e
command -v bnxt_setupcc.sh > /dev/null || {{
  echo "bnxt_setupcc.sh is missing: install bnxt_re_conf of Broadcom's driver package" >&2
  exit 1
}}
for pair in {_pairs(fabric)}; do
  port=${{pair%%:*}}
  name=${{pair##*:}}
  rdma=$(ls "/sys/class/net/$port/device/infiniband")
  bnxt_setupcc.sh -d "$rdma" -i "$port" -m 3 -r {nic.roce_priority} -s {nic.roce_dscp} \\
    -c {nic.cnp_priority} -p {nic.cnp_dscp}
  if [ "$rdma" != "$name" ]; then rdma dev set "$rdma" name "$name"; fi
done
"""


def _pollara(fabric: Fabric) -> str:
    """Commands and shares of AMD's guide, with this fabric's DSCPs and priorities.

    https://rocm.docs.amd.com/en/latest/how-to/rocm-for-ai/inference/benchmark-docker/sglang-mori-distributed.html
    """
    nic = fabric.lossless.nic
    return f"""\
#!/bin/sh
# NIC queues for a lossless fabric: run as root after each boot.
set -e
command -v nicctl > /dev/null || {{
  echo "nicctl is missing: install AMD's AINIC host software" >&2
  exit 1
}}
for port in $(nicctl show port | awk '/Port/ {{print $3}}'); do
  nicctl update port -p "$port" --pause-type pfc --rx-pause enable --tx-pause enable
done
nicctl update qos --classification-type dscp
nicctl update qos dscp-to-priority --dscp 0-63 --priority 0
nicctl update qos dscp-to-priority --dscp {nic.roce_dscp} --priority {nic.roce_priority}
nicctl update qos dscp-to-priority --dscp {nic.cnp_dscp} --priority {nic.cnp_priority}
nicctl update qos pfc --priority {nic.roce_priority} --no-drop enable
nicctl update qos scheduling --priority {nic.roce_priority},0,{nic.cnp_priority} --dwrr 99,1,0 \\
  --rate-limit 0,0,10
for pair in {_pairs(fabric)}; do
  port=${{pair%%:*}}
  name=${{pair##*:}}
  rdma=$(ls "/sys/class/net/$port/device/infiniband")
  nicctl update dcqcn -r "$rdma" -i 1 --cnp-dscp {nic.cnp_dscp}
  if [ "$rdma" != "$name" ]; then rdma dev set "$rdma" name "$name"; fi
done
"""


def _settings_to_make(fabric: Fabric) -> str:
    """A script that changes nothing and names the settings: these NICs have other tools."""
    nic = fabric.lossless.nic
    return f"""\
#!/bin/sh
# NIC queues for a lossless fabric. The demand names no NIC vendor (--nic-vendor connectx, thor2 or
# pollara): make these settings with the vendor's own tool.
cat >&2 <<'SETTINGS'
nothing was changed: the NIC vendor is not known; set on every NIC
  trust:              {nic.trust}
  RDMA traffic:       DSCP {nic.roce_dscp}, priority {nic.roce_priority}
  notifications (CNP): DSCP {nic.cnp_dscp}, priority {nic.cnp_priority}
  PFC:                priority {", ".join(map(str, sorted(nic.pfc_priorities)))} only
  ECN:                enabled for priority {nic.roce_priority}
SETTINGS
exit 1
"""


def _pairs(fabric: Fabric) -> str:
    """Every NIC with the name of its RDMA device, as a list of a shell."""
    ports = fabric.servers[0].interfaces
    return " ".join(f"{port.port}:{rdma_name(port.port)}" for port in ports)


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
