"""Compute Engine."""

from gpuyard.provision.platforms.compute_engine.render import COMPUTE_ENGINE

__all__ = ["COMPUTE_ENGINE"]
