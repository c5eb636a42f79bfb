"""Lossless Ethernet: QoS profiles, headroom, packet memory, watchdog, NICs and load balancing."""

from gpuyard.fabric.lossless.balancing import OPTIONS, Balancer, Option, limits_broken, option
from gpuyard.fabric.lossless.buffers import BufferPlan, PortGroup, buffer_plan, longest_cable_m
from gpuyard.fabric.lossless.classes import Ecn, Kind, Partition, Pfc, Qos, TrafficClass
from gpuyard.fabric.lossless.headroom import PortHeadroom, headroom, headroom_of
from gpuyard.fabric.lossless.lossless import Buffers, Lossless, Transport, lossless_for
from gpuyard.fabric.lossless.nic import DCQCN_DEFAULT, FACTORY_TRUST, Dcqcn, Nic
from gpuyard.fabric.lossless.profiles import BY_OS, PROFILES, WATCHDOGS, qos_of
from gpuyard.fabric.lossless.watchdog import SONIC_RANGES, Watchdog, watchdog_problems

__all__ = [
    "BY_OS", "DCQCN_DEFAULT", "FACTORY_TRUST", "OPTIONS", "PROFILES", "SONIC_RANGES", "WATCHDOGS", "Balancer",
    "BufferPlan", "Buffers", "Dcqcn", "Ecn", "Kind", "Lossless", "Nic", "Option", "Partition", "Pfc", "PortGroup",
    "PortHeadroom", "Qos", "TrafficClass", "Transport", "Watchdog", "buffer_plan", "headroom", "headroom_of",
    "limits_broken", "longest_cable_m", "lossless_for", "option", "qos_of", "watchdog_problems",
]  # fmt: skip
