"""Cluster Toolkit."""

from gpuyard.provision.platforms.cluster_toolkit.render import CLUSTER_TOOLKIT

__all__ = ["CLUSTER_TOOLKIT"]
