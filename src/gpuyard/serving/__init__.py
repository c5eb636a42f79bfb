"""Deployment: models behind an inference server, swapped and tried out while it answers."""

from gpuyard.serving.deploy import deploy, is_ready, stop
from gpuyard.serving.endpoints import Canary, Endpoint, Endpoints
from gpuyard.serving.server import folder_of, serve
from gpuyard.serving.spec import (
    BatchSpec,
    CanarySpec,
    DeploySpec,
    GuardSpec,
    LimitSpec,
    Mount,
    Settings,
    check_settings,
)

__all__ = [
    "BatchSpec", "Canary", "CanarySpec", "DeploySpec", "Endpoint", "Endpoints", "GuardSpec", "LimitSpec", "Mount",
    "Settings", "check_settings", "deploy", "folder_of", "is_ready", "serve", "stop",
]  # fmt: skip
