#!/bin/sh
# NIC queues for a lossless fabric: run as root after each boot. `--firmware` also writes congestion
# control settings to the NIC, which take effect after a reset of the NIC.
set -e
for pair in gpu0_eth:gpu0_rdma gpu1_eth:gpu1_rdma; do
  port=${pair%%:*}
  name=${pair##*:}
  pci=$(basename "$(readlink -f "/sys/class/net/$port/device")")
  rdma=$(ls "/sys/class/net/$port/device/infiniband")
  if [ "$rdma" != "$name" ]; then rdma dev set "$rdma" name "$name"; fi
  mlnx_qos -i "$port" --trust dscp
  mlnx_qos -i "$port" --dscp2prio set,26,3
  mlnx_qos -i "$port" --dscp2prio set,48,7
  mlnx_qos -i "$port" --pfc 0,0,0,1,0,0,0,0
  mlnx_qos -i "$port" --cable_len 5
  echo 1 > "/sys/class/net/$port/ecn/roce_np/enable/3"
  echo 1 > "/sys/class/net/$port/ecn/roce_rp/enable/3"
  echo 48 > "/sys/class/net/$port/ecn/roce_np/cnp_dscp"
  echo 7 > "/sys/class/net/$port/ecn/roce_np/cnp_802p_prio"
  echo 106 > "/sys/class/infiniband/$name/tc/1/traffic_class"
  cma_roce_tos -d "$name" -t 106
  if [ "$1" = --firmware ]; then
    mlxconfig -y -d "$pci" set CNP_DSCP_P1=48 CNP_802P_PRIO_P1=7 \
      ROCE_CC_PRIO_MASK_P1=255
    mlxconfig -y -d "$pci" set CLAMP_TGT_RATE_P1=0 CLAMP_TGT_RATE_AFTER_TIME_INC_P1=1 DCE_TCP_G_P1=1019 DCE_TCP_RTT_P1=1 INITIAL_ALPHA_VALUE_P1=1023 MIN_TIME_BETWEEN_CNPS_P1=4 RATE_REDUCE_MONITOR_PERIOD_P1=4 RATE_TO_SET_ON_FIRST_CNP_P1=0 RPG_AI_RATE_P1=5 RPG_BYTE_RESET_P1=32767 RPG_GD_P1=11 RPG_HAI_RATE_P1=50 RPG_MAX_RATE_P1=0 RPG_MIN_DEC_FAC_P1=50 RPG_MIN_RATE_P1=1 RPG_THRESHOLD_P1=1 RPG_TIME_RESET_P1=300
  fi
done
