"""What is wanted: one YAML file for a workload, read strictly into a frozen value."""

from gpuyard.workload.checks import CHECKS
from gpuyard.workload.finding import Check, Finding
from gpuyard.workload.offers import allowed_machines, may_be_had, may_be_placed, may_run
from gpuyard.workload.read import own_catalogs, parse_workload, read_workload
from gpuyard.workload.requirements import Precision, Requirements
from gpuyard.workload.schema import workload_schema
from gpuyard.workload.starters import starter
from gpuyard.workload.where import ConsumptionName, EngineName, PlatformChoice, ProviderName, Stock, Where
from gpuyard.workload.work import Data, Graphics, Hpc, Traffic, Training
from gpuyard.workload.workload import Pipeline, Workload

__all__ = [
    "CHECKS", "Check", "ConsumptionName", "Data", "EngineName", "Finding", "Graphics", "Hpc", "Pipeline",
    "PlatformChoice", "Precision", "ProviderName", "Requirements", "Stock", "Traffic", "Training", "Where", "Workload",
    "allowed_machines", "may_be_had", "may_be_placed", "may_run", "own_catalogs", "parse_workload", "read_workload",
    "starter", "workload_schema",
]  # fmt: skip
