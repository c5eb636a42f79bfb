"""The servers' side: addresses, NIC queues, and NCCL."""

from gpuyard.fabric.render.server.nccl import nccl_environment, nccl_topology
from gpuyard.fabric.render.server.netplan import netplan
from gpuyard.fabric.render.server.nic import nic_commands
from gpuyard.fabric.render.server.servers import servers

__all__ = ["nccl_environment", "nccl_topology", "netplan", "nic_commands", "servers"]
