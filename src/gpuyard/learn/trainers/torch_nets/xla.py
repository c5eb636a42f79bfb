"""PyTorch/XLA (PJRT): the same PyTorch model on TPUs and other XLA devices.

Its wheels require the torch of the same version, so it needs a separate environment; the guide
`train` has the commands.
"""

from __future__ import annotations

import torch

from gpuyard.errors import ExternalError, InputError
from gpuyard.learn.ranks import Ranks


def device(ranks: Ranks) -> torch.device:
    """Return this process's XLA device; raise ExternalError if torch_xla cannot be imported."""
    if ranks.world > 1:
        raise InputError.one(
            "train: device: xla",
            "runs in one process",
            "set one process; it drives all its devices",
        )
    try:
        import torch_xla
    except ImportError as error:
        raise ExternalError(
            "train: device: xla",
            f"torch_xla cannot be loaded: {error}",
            "create a separate environment: python -m venv xla && xla/bin/pip install torch==2.9.1"
            " torch_xla==2.9.0 'gpuyard[run]', and set PJRT_DEVICE to TPU, CUDA or CPU",
        ) from error
    xla_device: torch.device = torch_xla.device()
    return xla_device


def end_of_step() -> None:
    """Execute the traced step on the device."""
    import torch_xla

    torch_xla.sync()
