"""A Ray cluster: the same partitions as tasks; a lost worker's task is run again."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuyard.datasets.allocator import SETTING
from gpuyard.datasets.engines.engine import Done
from gpuyard.datasets.execute import execute
from gpuyard.datasets.job import Job, Work
from gpuyard.errors import GpuyardError, InputError, RefusedError

__all__ = ["RayEngine", "ray_address"]

_RETRIES = 5
ANSWER_S = 5.0
_OURS = "GPUYARD_RAY"  # set in the environment of a cluster that was started here


@dataclass(frozen=True, slots=True, kw_only=True)
class RayEngine:
    """Ray at an address; without one, the cluster that RAY_ADDRESS names, or one started here for the run.

    An address is HOST:6379 or ray://HOST:10001; another cluster that this machine has, or had, is left alone.
    The folders of the source and of the output must be the same on every node.
    """

    address: str | None = None
    cpus: int = 1  # of a task; Polars gets as many threads
    in_flight: int = 2  # partitions that share a node's memory

    @property
    def name(self) -> str:
        """ray."""
        return "ray"

    def run(self, job: Job, works: Sequence[Work], done: Done) -> None:
        """Runs every partition as a task."""
        ray, own = self._connected()
        total = int(ray.cluster_resources().get("CPU", 1))
        task = ray.remote(
            num_cpus=self.cpus if total > self.cpus else 0,  # the process that waits for them may hold the only one
            max_retries=_RETRIES,
            retry_exceptions=[OSError],
            runtime_env=None if own else {"env_vars": _environment(self.cpus)},
        )(execute)
        shared = ray.put(job)
        most = max(2, 2 * total // self.cpus)
        waiting: dict[Any, Work] = {}
        queue = iter(works)
        while True:
            while len(waiting) < most and (work := next(queue, None)) is not None:
                waiting[task.remote(shared, work)] = work
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                done(waiting.pop(reference), _result(ray, reference))

    def _connected(self) -> tuple[Any, bool]:
        """Ray, joined or started; and whether its workers have our environment already."""
        try:
            ray = importlib.import_module("ray")
        except ImportError:
            raise RefusedError("ray", "is not installed", "pip install 'gpuyard[ray]'") from None
        if ray.is_initialized():
            return ray, os.environ.get(_OURS) == "1"
        address = ray_address(self.address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address is None:  # workers of a cluster started here inherit this, which is cheaper than telling each task
            os.environ.update(_environment(self.cpus) | {_OURS: "1"})
        try:
            ray.init(address=address or "local", log_to_driver=False, logging_level="error", include_dashboard=False)
        except Exception as error:  # Ray raises a bare one when its daemons do not start in time
            if address is None:
                what, fix = f"cannot be started: {error}", "free the machine, or name a running cluster by --address"
                raise RefusedError("ray", what, fix) from None
            raise RefusedError(f"ray at {address}", f"cannot be reached: {error}", "check the address") from None
        return ray, address is None


def ray_address(named: str | None = None) -> str | None:
    """The address of a cluster that answers, or None for one to be started: Ray alone would wait for minutes."""
    where, address = ("ray", named) if named else ("RAY_ADDRESS", os.environ.get("RAY_ADDRESS"))
    if not address or address == "local":
        return None
    scheme, _, place = address.rpartition("://")
    host, _, port = place.partition("/")[0].rpartition(":")
    if scheme not in ("", "ray") or not host or not port.isdigit():
        fix = "write HOST:6379, the address of its head, or ray://HOST:10001; a dashboard's http:// is not one"
        raise InputError.one(where, f'"{address}" is not the address of a Ray cluster', fix)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except (OSError, OverflowError) as error:
        fix = "start the cluster, check the address, or leave it out to have a Ray started here"
        raise RefusedError(f"{where}: {address}", f"does not answer: {error}", fix) from None
    return address


def _environment(cpus: int) -> dict[str, str]:
    """What workers are told: Polars takes no more threads than the task has CPUs."""
    return {"POLARS_MAX_THREADS": str(cpus), "_RJEM_MALLOC_CONF": SETTING}


def _result(ray: Any, reference: Any) -> Any:
    """What a task brought back; our own errors as they were raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, GpuyardError):
            raise cause from None
        raise
    except ray.exceptions.RayError as error:
        raise RefusedError("ray", str(error).splitlines()[0], "look at the cluster's state and logs") from error
