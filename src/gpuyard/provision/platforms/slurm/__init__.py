"""Slurm: batch scripts for a cluster that exists."""

from gpuyard.provision.platforms.slurm.nodes import Nodes, nodes_of
from gpuyard.provision.platforms.slurm.render import SLURM, batch_artefacts
from gpuyard.provision.platforms.slurm.script import batch_script

__all__ = ["SLURM", "Nodes", "batch_artefacts", "batch_script", "nodes_of"]
