"""The list of platforms. A new platform is a folder next to this file and a line in PLATFORMS."""

from gpuyard.provision.platform import Platform
from gpuyard.provision.platforms.cloud_run.cloud_run_platform import CLOUD_RUN
from gpuyard.provision.platforms.cluster_director.cluster_director_platform import CLUSTER_DIRECTOR
from gpuyard.provision.platforms.cluster_toolkit.cluster_toolkit_platform import CLUSTER_TOOLKIT
from gpuyard.provision.platforms.compute_engine.compute_engine_platform import COMPUTE_ENGINE
from gpuyard.provision.platforms.gke.gke_platform import GKE
from gpuyard.provision.platforms.kubernetes.kubernetes_platform import KUBERNETES
from gpuyard.provision.platforms.local.local_platform import LOCAL
from gpuyard.provision.platforms.ray.ray_platform import RAY
from gpuyard.provision.platforms.slurm.slurm_platform import SLURM
from gpuyard.provision.platforms.tpu.tpu_platform import CLOUD_TPU
from gpuyard.provision.platforms.vertex_ai.vertex_ai_platform import VERTEX_AI

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
    """Return the platform with a name."""
    return next((platform for platform in PLATFORMS if platform.name == name), None)
