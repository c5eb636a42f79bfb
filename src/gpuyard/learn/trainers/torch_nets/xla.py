"""PyTorch/XLA (PJRT): the same PyTorch model on TPUs and other XLA devices.

Its wheels need the torch of the same version, so it has an environment of its own; the guide `train` has the commands.
"""

from __future__ import annotations

import torch

from gpuyard.errors import InputError, RefusedError
from gpuyard.learn.ranks import Ranks

__all__ = ["device", "end_of_step"]


def device(ranks: Ranks) -> torch.device:
    """This process's XLA device; RefusedError says how to make the environment where torch_xla is missing."""
    if ranks.world > 1:
        raise InputError.one("train: device: xla", "runs in one process", "set one process; it drives all its devices")
    try:
        import torch_xla
    except ImportError as error:
        raise RefusedError(
            "train: device: xla",
            f"torch_xla cannot be loaded: {error}",
            "make an environment of its own: python -m venv xla && xla/bin/pip install torch==2.9.1 torch_xla==2.9.0 "
            "'gpuyard[run]', and set PJRT_DEVICE to TPU, CUDA or CPU",
        ) from error
    found: torch.device = torch_xla.device()
    return found


def end_of_step() -> None:
    """Sends the step that was traced to the device."""
    import torch_xla

    torch_xla.sync()
