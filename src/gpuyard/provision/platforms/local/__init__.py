"""This machine."""

from gpuyard.provision.platforms.local.render import LOCAL

__all__ = ["LOCAL"]
