"""The platforms: one folder each, one line here."""

from gpuyard.provision.platform import Platform
from gpuyard.provision.platforms.cloud_run import CLOUD_RUN
from gpuyard.provision.platforms.cluster_director import CLUSTER_DIRECTOR
from gpuyard.provision.platforms.cluster_toolkit import CLUSTER_TOOLKIT
from gpuyard.provision.platforms.compute_engine import COMPUTE_ENGINE
from gpuyard.provision.platforms.gke import GKE
from gpuyard.provision.platforms.kubernetes import KUBERNETES
from gpuyard.provision.platforms.local import LOCAL
from gpuyard.provision.platforms.ray import RAY
from gpuyard.provision.platforms.slurm import SLURM
from gpuyard.provision.platforms.tpu import CLOUD_TPU
from gpuyard.provision.platforms.vertex_ai import VERTEX_AI

__all__ = ["PLATFORMS", "platform_named"]

PLATFORMS: tuple[Platform, ...] = (
    COMPUTE_ENGINE,
    GKE,
    CLOUD_TPU,
    KUBERNETES,
    CLUSTER_DIRECTOR,
    CLUSTER_TOOLKIT,
    SLURM,
    VERTEX_AI,
    CLOUD_RUN,
    RAY,
    LOCAL,
)


def platform_named(name: str) -> Platform | None:
    """The platform of that name."""
    return next((platform for platform in PLATFORMS if platform.name == name), None)
