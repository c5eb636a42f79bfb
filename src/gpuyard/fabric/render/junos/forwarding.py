"""Junos load balancing over ECMP paths."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.fabric import Device, Fabric

HASH = "set forwarding-options hash-key family inet"
DLB = "set forwarding-options enhanced-hash-key ecmp-dlb"


def forwarding(fabric: Fabric, device: Device) -> Iterator[str]:
    """Yield the hash key, and dynamic load balancing with the same settings on every switch."""
    balancing = fabric.lossless.balancing
    yield f"{HASH} layer-3"
    yield f"{HASH} layer-4"
    if balancing.mode == "ecmp" or device.role == "server":
        return
    if balancing.mode in ("per-packet", "spray"):
        yield f"{DLB} per-packet"
    elif balancing.inactivity_s is not None:
        yield f"{DLB} flowlet inactivity-interval {round(balancing.inactivity_s * 1e6)}"
        yield f"{DLB} flowlet flowset-table-size {balancing.flowset_count}"
        yield f"{DLB} flowlet reassignment prob-threshold {balancing.reassign_probability}"
        yield f"{DLB} flowlet reassignment quality-delta {balancing.reassign_delta}"
    yield f"{DLB} ether-type ipv4"
    yield f"{DLB} ether-type ipv6"
    yield f"{DLB} sampling-rate {balancing.sampling_per_s}"
