"""GKE."""

from gpuyard.provision.platforms.gke.render import GKE

__all__ = ["GKE"]
