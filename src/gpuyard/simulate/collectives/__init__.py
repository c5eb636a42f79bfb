"""Collectives as messages between ranks, as flows between hosts, and how long the measured ones take."""

from gpuyard.simulate.collectives.bus import bus_bytes_per_s, bus_factor
from gpuyard.simulate.collectives.compile import (
    ALGORITHMS,
    Algorithm,
    Call,
    Grid,
    collective_traffic,
    grid_of,
    schedule_of,
)
from gpuyard.simulate.collectives.constants import Constants, read_constants
from gpuyard.simulate.collectives.placement import Placement, placement
from gpuyard.simulate.collectives.rounds import Exchange, Round, rounds_of
from gpuyard.simulate.collectives.schedule import Schedule, to_traffic
from gpuyard.simulate.collectives.score import Score, score_collectives
from gpuyard.simulate.collectives.timing import Cluster, Timing, collective_time

__all__ = [
    "ALGORITHMS", "Algorithm", "Call", "Cluster", "Constants", "Exchange", "Grid", "Placement", "Round", "Schedule",
    "Score", "Timing", "bus_bytes_per_s", "bus_factor", "collective_time", "collective_traffic", "grid_of",
    "placement", "read_constants", "rounds_of", "schedule_of", "score_collectives", "to_traffic",
]  # fmt: skip
