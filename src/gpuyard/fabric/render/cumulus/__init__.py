"""Cumulus Linux: startup.yaml of NVUE."""

from gpuyard.fabric.render.cumulus.startup import Cumulus

__all__ = ["Cumulus"]
