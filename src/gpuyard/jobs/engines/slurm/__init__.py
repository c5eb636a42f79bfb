"""Slurm: batch jobs and arrays by its own commands."""

from gpuyard.jobs.engines.slurm.engine import SlurmEngine

__all__ = ["SlurmEngine"]
