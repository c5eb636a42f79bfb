"""Sources: finding files, reading their columns, cutting them into partitions."""

from gpuyard.datasets.source.open import Source, open_source
from gpuyard.datasets.source.parts import Partition, read_partition

__all__ = ["Partition", "Source", "open_source", "read_partition"]
