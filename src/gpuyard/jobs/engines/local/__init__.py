"""This machine: processes under a supervisor that outlives gpuyard."""

from gpuyard.jobs.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
