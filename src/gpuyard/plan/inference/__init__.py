"""Which service: machines, replicas, layout, number format and batching that keep the latencies at the load."""

from gpuyard.plan.inference.load import VARIATION, Load, Targets, load_of, targets_of
from gpuyard.plan.inference.replica import Latencies, PromptPool, Quantiles, Replica, ServingModel

__all__ = [
    "VARIATION", "Latencies", "Load", "PromptPool", "Quantiles", "Replica", "ServingModel", "Targets", "load_of",
    "targets_of",
]  # fmt: skip
