"""Cloud TPU."""

from gpuyard.provision.platforms.tpu.render import CLOUD_TPU

__all__ = ["CLOUD_TPU"]
