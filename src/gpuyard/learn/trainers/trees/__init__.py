"""Gradient-boosted trees by LightGBM."""

from gpuyard.learn.trainers.trees.trainer import make

__all__ = ["make"]
