"""The devices of all processes as one line, over which batches are cut and weights are copied."""

from __future__ import annotations

import contextlib
import functools

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gpuyard.errors import RefusedError
from gpuyard.learn.memory import peak_bytes
from gpuyard.learn.ranks import Ranks

__all__ = ["Devices", "devices_of"]


class Devices:
    """Where arrays lie: batches cut over all devices, weights whole on each."""

    def __init__(self) -> None:
        self.mesh = Mesh(np.asarray(jax.devices()), ("data",))
        self.copied = NamedSharding(self.mesh, PartitionSpec())
        self.cut = NamedSharding(self.mesh, PartitionSpec(None, "data"))

    def batch(self, local: npt.NDArray[np.generic]) -> jax.Array:
        """The global micro-batches [accumulate, rows, …] of which this process has its part."""
        return jax.make_array_from_process_local_data(self.cut, local)

    def copy(self, whole: npt.NDArray[np.generic]) -> jax.Array:
        """An array that every process has whole."""
        return jax.make_array_from_process_local_data(self.copied, whole)

    @property
    def kind(self) -> str:
        """The kind of device, such as `cpu` or `NVIDIA H100 80GB HBM3`."""
        device = jax.local_devices()[0]
        return str(device.platform if device.platform == "cpu" else device.device_kind)

    def memory_bytes(self) -> float:
        """The most that one device had in use; of this process where the device is the host."""
        stats = jax.local_devices()[0].memory_stats() or {}
        return float(stats.get("peak_bytes_in_use", 0)) or peak_bytes()


def devices_of(ranks: Ranks) -> Devices:
    """The devices of the run; joins the other processes on the first call."""
    if ranks.world > 1 and not jax.distributed.is_initialized():
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        with contextlib.suppress(AttributeError):  # not in older versions
            jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM for itself
        try:
            jax.distributed.initialize(
                coordinator_address=f"{ranks.address}:{ranks.port}",
                num_processes=ranks.world,
                process_id=ranks.rank,
                local_device_ids=[ranks.local_rank] if ranks.local_world > 1 else None,
            )
        except RuntimeError as error:
            raise RefusedError(
                f"{ranks.address}:{ranks.port}",
                f"process {ranks.rank} of {ranks.world} cannot join: {error}",
                "check that every process runs and reaches that address",
            ) from error
    return _devices()


@functools.cache
def _devices() -> Devices:
    """The devices, found once."""
    return Devices()
