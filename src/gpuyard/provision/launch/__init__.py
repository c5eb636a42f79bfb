"""How programs start: commands and environments of frameworks and engines, and the plumbing of GPU fabrics."""

from gpuyard.provision.launch.facts import Spot, plumbing, read_launch_facts
from gpuyard.provision.launch.job import (
    CAPABILITIES,
    CHECKPOINTS,
    fabric_variables,
    framework_of,
    job_launch,
    mounts_of,
)
from gpuyard.provision.launch.launch import Launch, Mount, Variable, export_lines
from gpuyard.provision.launch.server import (
    SERVERS,
    machines_per_replica,
    needs_slurm,
    replicas_per_machine,
    server_launch,
    serving_of,
)

__all__ = [
    "CAPABILITIES", "CHECKPOINTS", "SERVERS", "Launch", "Mount", "Spot", "Variable", "export_lines", "fabric_variables",
    "framework_of", "job_launch", "machines_per_replica", "mounts_of", "needs_slurm", "plumbing", "read_launch_facts",
    "replicas_per_machine", "server_launch", "serving_of",
]  # fmt: skip
