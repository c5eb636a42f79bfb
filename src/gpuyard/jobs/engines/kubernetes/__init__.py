"""Kubernetes: Jobs and JobSets through the API, with nothing but the standard library."""

from gpuyard.jobs.engines.kubernetes.engine import KubernetesEngine

__all__ = ["KubernetesEngine"]
