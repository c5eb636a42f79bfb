"""The steps of a pipeline, each a record of what the file says and a record of what the data made of it."""

from gpuyard.datasets.steps.table import PARTS, Step

__all__ = ["PARTS", "Step"]
