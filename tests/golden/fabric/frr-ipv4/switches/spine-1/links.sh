#!/bin/sh
# spine-1: run before FRR starts
set -e
ip link set dev eth1 mtu 9216 up
ip link set dev eth2 mtu 9216 up
for port in eth1 eth2; do
  dcb app replace dev $port dscp-prio 24:3 25:3 26:3 27:3 28:3 29:3 30:3 31:3 48:6 49:6 50:6 51:6 52:6 53:6 54:6 55:6 || true
  dcb pfc set dev $port prio-pfc all:off 3:on || true
  dcb ets set dev $port prio-tc 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7 tc-tsa 0:ets 1:ets 2:ets 3:ets 4:ets 5:ets 6:strict 7:ets tc-bw 0:50 1:0 2:0 3:50 4:0 5:0 6:0 7:0 || true
  dcb buffer set dev $port prio-buffer all:0 3:3 buffer-size 3:303104 || true
done
