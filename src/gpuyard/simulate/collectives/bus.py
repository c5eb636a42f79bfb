"""Bus bandwidth as nccl-tests defines it."""

from __future__ import annotations

from gpuyard.perf.collectives import Collective

# Traffic of one rank over the size, as nccl-tests' doc/PERFORMANCE.md derives it; broadcast and
# send: the size itself.
BUS_FACTOR = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0, "all-to-all": 1.0}


def bus_factor(collective: Collective | str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth."""
    if collective not in BUS_FACTOR:
        return 1.0
    return BUS_FACTOR[collective] * (ranks - 1) / ranks


def bus_bytes_per_s(
    collective: Collective | str, size_bytes: float, ranks: int, time_s: float
) -> float:
    """Return the bus bandwidth of a collective, as nccl-tests prints it."""
    return bus_factor(collective, ranks) * size_bytes / time_s


def whole_bytes(collective: Collective | str, size_bytes: float, ranks: int) -> float:
    """What the pieces of a schedule add up to: in an all-to-all, the size of every rank."""
    return size_bytes * ranks if collective == "all-to-all" else size_bytes
