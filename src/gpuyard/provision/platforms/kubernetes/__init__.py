"""Plain Kubernetes."""

from gpuyard.provision.platforms.kubernetes.render import KUBERNETES

__all__ = ["KUBERNETES"]
