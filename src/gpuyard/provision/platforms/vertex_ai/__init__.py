"""Vertex AI."""

from gpuyard.provision.platforms.vertex_ai.render import VERTEX_AI

__all__ = ["VERTEX_AI"]
