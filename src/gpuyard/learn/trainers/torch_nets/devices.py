"""The device of this process, and its group of processes."""

from __future__ import annotations

import atexit
import datetime
import os

import torch
import torch.distributed as dist

from gpuyard.errors import RefusedError
from gpuyard.learn.memory import peak_bytes
from gpuyard.learn.ranks import Ranks
from gpuyard.learn.spec import Device
from gpuyard.learn.trainers.torch_nets import xla

__all__ = ["Place", "place_of"]

JOIN_S = 600.0  # for the slowest process to come up


class Place:
    """Where tensors lie, and what is different there."""

    def __init__(self, device: torch.device, ranks: Ranks) -> None:
        self.device, self.ranks = device, ranks

    @property
    def kind(self) -> str:
        """The kind of device, such as `cpu` or `NVIDIA H100 80GB HBM3`."""
        if self.device.type == "cuda":
            return str(torch.cuda.get_device_name(self.device))
        return str(self.device.type)

    @property
    def together(self) -> bool:
        """True when there are other processes."""
        return self.ranks.world > 1

    def memory_bytes(self) -> float:
        """The most that the device had in use; of this process where the device is the host."""
        if self.device.type == "cuda":
            return float(torch.cuda.max_memory_allocated(self.device))
        return peak_bytes()

    def after_step(self) -> None:
        """What the device needs between two steps."""
        if self.device.type == "xla":
            xla.end_of_step()

    def sum_of(self, values: list[float]) -> list[float]:
        """The values added up over all processes."""
        if not self.together:
            return values
        tensor = torch.tensor(values, dtype=torch.float64 if self.device.type == "cpu" else torch.float32)
        tensor = tensor.to(self.device)
        dist.all_reduce(tensor)
        return [float(value) for value in tensor.cpu()]


def place_of(wish: Device, ranks: Ranks) -> Place:
    """The device that was wished for; joins the other processes on the first call."""
    if wish == "xla":
        return Place(xla.device(ranks), ranks)
    cuda = torch.cuda.is_available()
    if wish == "cuda" and not cuda:
        raise RefusedError("train: device", "CUDA is not available here", "install a CUDA build of torch, or use cpu")
    device = torch.device("cuda", ranks.local_rank) if cuda and wish != "cpu" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if device.type == "cpu" and ranks.local_world > 1:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks.local_world))  # do not fight over the cores
    if ranks.world > 1 and not dist.is_initialized():
        _join(device, ranks)
    return Place(device, ranks)


def _join(device: torch.device, ranks: Ranks) -> None:
    """Makes the group of processes."""
    # A restarted group must not meet the dead one's addresses in torchrun's store (pytorch/pytorch#135712).
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    os.environ.update(
        MASTER_ADDR=ranks.address, MASTER_PORT=str(ranks.port), RANK=str(ranks.rank), WORLD_SIZE=str(ranks.world)
    )
    try:
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            timeout=datetime.timedelta(seconds=JOIN_S),
            device_id=device if device.type == "cuda" else None,
        )
    except (RuntimeError, ValueError) as error:
        raise RefusedError(
            f"{ranks.address}:{ranks.port}",
            f"process {ranks.rank} of {ranks.world} cannot join: {error}",
            "check that every process runs and reaches that address",
        ) from error
    atexit.register(_leave)  # threads of a group that is left standing abort the process at its end


def _leave() -> None:
    """Takes the group of processes down."""
    if dist.is_initialized():
        dist.destroy_process_group()
