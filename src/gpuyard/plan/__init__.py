"""Which cluster: candidates, search, cost, platform and storage match, ranking, reasons."""

from gpuyard.plan.eligible import chip_of, ruled_out
from gpuyard.plan.option import (
    Arrangement,
    Bill,
    Cluster,
    Option,
    Part,
    Plan,
    Rejected,
    StorageNeed,
    StoragePick,
    Suitability,
)
from gpuyard.plan.service import Autoscaling, Engine, FrontierPoint, PrefillPool, Service, Spread

__all__ = [
    "Arrangement", "Autoscaling", "Bill", "Cluster", "Engine", "FrontierPoint", "Option", "Part", "Plan",
    "PrefillPool", "Rejected", "Service", "Spread", "StorageNeed", "StoragePick", "Suitability", "chip_of", "ruled_out",
]  # fmt: skip
