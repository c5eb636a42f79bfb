#!/bin/sh
# Prints NCCL's topology file for this host: sh nccl-topology.sh > /etc/nccl/topology.xml
# GPUs and NICs of a rail share a PCI bridge; bus numbers and NUMA nodes are read from the host.
set -e
sys=${SYSFS:-/sys}
rails="0/gpu0_eth:gpu0_rdma 1/gpu1_eth:gpu1_rdma"
buses=$(nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader |
  tr 'A-Z' 'a-z' | sed 's/^0000\(....:\)/\1/')
first() { echo "$1" | cut -d/ -f2 | cut -d, -f1 | cut -d: -f1; }
numa() { cat "$sys/class/net/$(first "$1")/device/numa_node"; }
pci() { echo "      <pci busid=\"$1\" class=\"$2\">$3</pci>"; }
echo '<system version="1">'
for node in $(for rail in $rails; do numa "$rail"; done | sort -nu); do
  echo "  <cpu numaid=\"$node\">"
  bridge=0
  for rail in $rails; do
    bridge=$((bridge + 1))
    if [ "$(numa "$rail")" != "$node" ]; then continue; fi
    echo "    <pci busid=\"ffff:$(printf %02x "$bridge"):01.0\" class=\"0x060400\">"
    for gpu in $(echo "${rail%%/*}" | tr , ' '); do
      pci "$(echo "$buses" | sed -n "$((gpu + 1))p")" 0x030200 "<gpu dev=\"$gpu\" gdr=\"1\"/>"
    done
    for pair in $(echo "${rail##*/}" | tr , ' '); do
      bus=$(basename "$(readlink -f "$sys/class/net/${pair%%:*}/device")")
      net="<net name=\"${pair##*:}\" port=\"1\" speed=\"400000\"/>"
      pci "$bus" 0x020000 "<nic>$net</nic>"
    done
    echo "    </pci>"
  done
  echo "  </cpu>"
done
echo '</system>'
