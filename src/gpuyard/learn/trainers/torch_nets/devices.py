"""The PyTorch device of this process, and its process group."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist

from gpuyard.errors import ExternalError
from gpuyard.learn.memory import peak_bytes
from gpuyard.learn.ranks import Ranks
from gpuyard.learn.trainer import StoppedError
from gpuyard.learn.trainers.network_settings import Device
from gpuyard.learn.trainers.torch_nets import xla

JOIN_TIMEOUT_S = 600.0  # for the slowest process to start


class TorchDevice:
    """A device and the operations that depend on it."""

    def __init__(self, device: torch.device, ranks: Ranks) -> None:
        self.device, self.ranks = device, ranks

    @property
    def kind(self) -> str:
        """Kind of device, such as `cpu` or `NVIDIA H100 80GB HBM3`."""
        if self.device.type == "cuda":
            return str(torch.cuda.get_device_name(self.device))
        return str(self.device.type)

    @property
    def together(self) -> bool:
        """True if there are other processes."""
        return self.ranks.world > 1

    def memory_bytes(self) -> float:
        """Return the peak memory of the device, or of this process on the CPU."""
        if self.device.type == "cuda":
            return float(torch.cuda.max_memory_allocated(self.device))
        return peak_bytes()

    def after_step(self) -> None:
        """Finish a step on devices that require it."""
        if self.device.type == "xla":
            xla.end_of_step()

    def sum_of(self, values: list[float]) -> list[float]:
        """Return the values summed over all processes."""
        if not self.together:
            return values
        tensor = torch.tensor(
            values, dtype=torch.float64 if self.device.type == "cpu" else torch.float32
        )
        tensor = tensor.to(self.device)
        dist.all_reduce(tensor)
        return [float(value) for value in tensor.cpu()]


@contextlib.contextmanager
def place_of(requested: Device, ranks: Ranks) -> Iterator[TorchDevice]:
    """Yield the requested device; ranks join one process group, and leave the block together.

    The group outlives the block, so that a process may train again; the owner of the process ends
    it with `destroy_process_group`, as the worker does.
    """
    device = _device_of(requested, ranks)
    if ranks.world == 1:
        yield TorchDevice(device, ranks)
        return
    if not dist.is_initialized():
        _join(device, ranks)
    try:
        yield TorchDevice(device, ranks)
    except StoppedError:  # the ranks agreed on the step, so all of them come here
        _wait_for_peers()
        raise
    _wait_for_peers()


def _wait_for_peers() -> None:
    # Rank 0 hosts the store, so it stays until the others are past their last collective. A peer
    # that died after that does not undo a training that is complete.
    with contextlib.suppress(RuntimeError):
        dist.barrier()


def _device_of(requested: Device, ranks: Ranks) -> torch.device:
    if requested == "xla":
        return xla.device(ranks)
    cuda = torch.cuda.is_available()
    if requested == "cuda" and not cuda:
        raise ExternalError(
            "train: device",
            "CUDA is not available",
            "install a CUDA build of torch, or use cpu",
        )
    device = (
        torch.device("cuda", ranks.local_rank)
        if cuda and requested != "cpu"
        else torch.device("cpu")
    )
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if device.type == "cpu" and ranks.local_world > 1:
        # Processes share the cores.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks.local_world))
    return device


def _join(device: torch.device, ranks: Ranks) -> None:
    # A restarted group must not see the dead one's addresses in torchrun's store
    # (pytorch/pytorch#135712).
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    os.environ.update(
        MASTER_ADDR=ranks.address,
        MASTER_PORT=str(ranks.port),
        RANK=str(ranks.rank),
        WORLD_SIZE=str(ranks.world),
    )
    try:
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            timeout=datetime.timedelta(seconds=JOIN_TIMEOUT_S),
            device_id=device if device.type == "cuda" else None,
        )
    except (RuntimeError, ValueError) as error:
        raise ExternalError(
            f"{ranks.address}:{ranks.port}",
            f"process {ranks.rank} of {ranks.world} cannot join: {error}",
            "check that every process runs and can reach that address",
        ) from error
