"""Kubernetes objects that GKE and plain Kubernetes share."""

from gpuyard.provision.platforms.manifests.jobs import job_objects
from gpuyard.provision.platforms.manifests.nodes import Nodes, nodes_of, uses_claims
from gpuyard.provision.platforms.manifests.plumbing import network_names
from gpuyard.provision.platforms.manifests.queues import queue_objects
from gpuyard.provision.platforms.manifests.services import replica_bounds, service_objects
from gpuyard.provision.platforms.manifests.text import Object, manifest

__all__ = [
    "Nodes", "Object", "job_objects", "manifest", "network_names", "nodes_of", "queue_objects", "replica_bounds",
    "service_objects", "uses_claims",
]  # fmt: skip
