"""The device mesh of all processes: batches are sharded over it, weights are replicated."""

from __future__ import annotations

import contextlib
import functools

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gpuyard.errors import ExternalError
from gpuyard.learn.memory import peak_bytes
from gpuyard.learn.ranks import Ranks


class Devices:
    """The mesh and its shardings."""

    def __init__(self) -> None:
        self.mesh = Mesh(np.asarray(jax.devices()), ("data",))
        self.replicated = NamedSharding(self.mesh, PartitionSpec())
        self.sharded = NamedSharding(self.mesh, PartitionSpec(None, "data"))

    def batch(self, local: npt.NDArray[np.generic]) -> jax.Array:
        """Return the global micro-batches [accumulate, rows, …] from this process's part."""
        return jax.make_array_from_process_local_data(self.sharded, local)

    def copy(self, whole: npt.NDArray[np.generic]) -> jax.Array:
        """Replicate an array that every process has in full."""
        return jax.make_array_from_process_local_data(self.replicated, whole)

    @property
    def kind(self) -> str:
        """Kind of device, such as `cpu` or `NVIDIA H100 80GB HBM3`."""
        device = jax.local_devices()[0]
        return str(device.platform if device.platform == "cpu" else device.device_kind)

    def memory_bytes(self) -> float:
        """Return the peak memory of one device, or of this process on the CPU."""
        stats = jax.local_devices()[0].memory_stats() or {}
        return float(stats.get("peak_bytes_in_use", 0)) or peak_bytes()


def devices_of(ranks: Ranks) -> Devices:
    """Return the devices of the run; joins the other processes on the first call."""
    if ranks.world > 1 and not jax.distributed.is_initialized():
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        with contextlib.suppress(AttributeError):  # not in older versions
            # The preemption service would handle SIGTERM itself.
            jax.config.update("jax_enable_preemption_service", False)
        try:
            jax.distributed.initialize(
                coordinator_address=f"{ranks.address}:{ranks.port}",
                num_processes=ranks.world,
                process_id=ranks.rank,
                local_device_ids=[ranks.local_rank] if ranks.local_world > 1 else None,
            )
        except RuntimeError as error:
            raise ExternalError(
                f"{ranks.address}:{ranks.port}",
                f"process {ranks.rank} of {ranks.world} cannot join: {error}",
                "check that every process runs and can reach that address",
            ) from error
    return _devices()


@functools.cache
def _devices() -> Devices:
    return Devices()
