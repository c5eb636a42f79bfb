"""This machine, measured: products, memory, processes and storage, each with its spread."""

from gpuyard.measure.compute import accelerators, memory_rates, product_rates
from gpuyard.measure.host import cores_count, memory_bytes, processor, versions
from gpuyard.measure.layers import cache_rates, layer_timings
from gpuyard.measure.processes import process_rates
from gpuyard.measure.progress import Tell, silent
from gpuyard.measure.storage import storage_rates
from gpuyard.measure.timing import Timed, timed

__all__ = [
    "Tell", "Timed", "accelerators", "cache_rates", "cores_count", "layer_timings", "memory_bytes", "memory_rates",
    "process_rates", "processor", "product_rates", "silent", "storage_rates", "timed", "versions",
]  # fmt: skip
