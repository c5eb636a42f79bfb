"""NCCL environment variables, and a topology file that pairs GPUs with NICs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.server.nic import rdma_name

OUT_OF_ORDER = ("adaptive", "per-packet", "spray")


def nccl_environment(fabric: Fabric) -> str:
    """Return the variables of every rank; the operator sets the frontend interface."""
    lossless = fabric.lossless
    names = ",".join(rdma_name(port.port) for port in fabric.servers[0].interfaces)
    lines = [
        f"NCCL_IB_HCA=={names}",  # the second = means exact names
        "NCCL_CROSS_NIC=0",  # rings stay on their rail
        "NCCL_PXN_DISABLE=0",  # traffic changes rails over NVLink
        "NCCL_TOPO_FILE=/etc/nccl/topology.xml",
        "NCCL_SOCKET_IFNAME=${FRONTEND_INTERFACE:?name the interface of the front end}",
    ]
    if lossless.transport == "roce":
        lines += [f"NCCL_IB_TC={lossless.nic.traffic_class_byte}", "NCCL_IB_GID_INDEX=3"]
        # More flows for ECMP to hash.
        lines += ["NCCL_IB_QPS_PER_CONNECTION=4", "NCCL_IB_SPLIT_DATA_ON_QPS=0"]
        if lossless.balancing.mode in OUT_OF_ORDER:
            lines.append("NCCL_IB_ADAPTIVE_ROUTING=1")
    return "\n".join(lines) + "\n"


def nccl_topology(fabric: Fabric) -> str:
    """Return a script that prints the topology file with the bus numbers of its host."""
    groups = " ".join(f"{gpus}/{ports}" for gpus, ports in _rails(fabric))
    speed = round(fabric.demand.plane_bits_per_s / 1e6)
    return f"""\
#!/bin/sh
# Prints NCCL's topology file for this host: sh nccl-topology.sh > /etc/nccl/topology.xml
# GPUs and NICs of a rail share a PCI bridge; bus numbers and NUMA nodes are read from the host.
set -e
sys=${{SYSFS:-/sys}}
rails="{groups}"
buses=$(nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader |
  tr 'A-Z' 'a-z' | sed 's/^0000\\(....:\\)/\\1/')
first() {{ echo "$1" | cut -d/ -f2 | cut -d, -f1 | cut -d: -f1; }}
numa() {{ cat "$sys/class/net/$(first "$1")/device/numa_node"; }}
pci() {{ echo "      <pci busid=\\"$1\\" class=\\"$2\\">$3</pci>"; }}
echo '<system version="1">'
for node in $(for rail in $rails; do numa "$rail"; done | sort -nu); do
  echo "  <cpu numaid=\\"$node\\">"
  bridge=0
  for rail in $rails; do
    bridge=$((bridge + 1))
    if [ "$(numa "$rail")" != "$node" ]; then continue; fi
    echo "    <pci busid=\\"ffff:$(printf %02x "$bridge"):01.0\\" class=\\"0x060400\\">"
    for gpu in $(echo "${{rail%%/*}}" | tr , ' '); do
      pci "$(echo "$buses" | sed -n "$((gpu + 1))p")" 0x030200 "<gpu dev=\\"$gpu\\" gdr=\\"1\\"/>"
    done
    for pair in $(echo "${{rail##*/}}" | tr , ' '); do
      bus=$(basename "$(readlink -f "$sys/class/net/${{pair%%:*}}/device")")
      net="<net name=\\"${{pair##*:}}\\" port=\\"1\\" speed=\\"{speed}\\"/>"
      pci "$bus" 0x020000 "<nic>$net</nic>"
    done
    echo "    </pci>"
  done
  echo "  </cpu>"
done
echo '</system>'
"""


def _rails(fabric: Fabric) -> Iterator[tuple[str, str]]:
    # GPUs and NIC ports of each rail; GPUs that share a NIC share its bridge.
    demand, ports = fabric.demand, fabric.servers[0].interfaces
    for rail in range(demand.rails):
        gpus = [
            gpu
            for gpu in range(demand.gpus_per_server)
            if gpu * demand.rails // demand.gpus_per_server == rail
        ]
        nics = [f"{port.port}:{rdma_name(port.port)}" for port in ports if port.rail == rail]
        if nics:
            yield ",".join(map(str, gpus)), ",".join(nics)
