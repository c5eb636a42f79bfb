"""Cluster Director."""

from gpuyard.provision.platforms.cluster_director.render import CLUSTER_DIRECTOR

__all__ = ["CLUSTER_DIRECTOR"]
