"""containerlab: the fabric as containers, with FRR in place of every switch."""

from gpuyard.fabric.render.containerlab.twin import TWIN_NODES, twin

__all__ = ["TWIN_NODES", "twin"]
