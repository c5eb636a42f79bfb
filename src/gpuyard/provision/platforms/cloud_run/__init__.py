"""Cloud Run."""

from gpuyard.provision.platforms.cloud_run.render import CLOUD_RUN

__all__ = ["CLOUD_RUN"]
