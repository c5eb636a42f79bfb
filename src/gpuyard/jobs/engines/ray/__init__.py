"""Ray: jobs on a cluster that exists, or on one of this machine that is started for them."""

from gpuyard.jobs.engines.ray.engine import RayEngine

__all__ = ["RayEngine"]
