"""Ray."""

from gpuyard.provision.platforms.ray.render import RAY

__all__ = ["RAY"]
