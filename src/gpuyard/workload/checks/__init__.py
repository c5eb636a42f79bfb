"""The rules that a well-formed workload must still keep, as a table of small functions."""

from gpuyard.workload.checks.table import CHECKS

__all__ = ["CHECKS"]
