"""The packet engine: every packet through shared buffers, with PFC, ECN, DCQCN, load balancing and failures."""

from gpuyard.simulate.packet.control import Storm
from gpuyard.simulate.packet.engine import Counters, PacketResult, simulate_packets
from gpuyard.simulate.packet.settings import HTSIM_ROCE, Dcqcn, Ecn, PacketSettings, Pfc, Watchdog

__all__ = [
    "HTSIM_ROCE", "Counters", "Dcqcn", "Ecn", "PacketResult", "PacketSettings", "Pfc", "Storm", "Watchdog",
    "simulate_packets",
]  # fmt: skip
