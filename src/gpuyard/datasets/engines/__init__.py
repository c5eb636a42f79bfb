"""Engines: where the partitions of a pass run."""

from gpuyard.datasets.engines.engine import Done, Engine
from gpuyard.datasets.engines.local import LocalEngine
from gpuyard.datasets.engines.ray import RayEngine

__all__ = ["Done", "Engine", "LocalEngine", "RayEngine"]
