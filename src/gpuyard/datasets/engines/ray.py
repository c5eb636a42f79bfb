"""Ray engine: partitions as tasks of a Ray cluster; tasks of a lost worker are retried."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuyard.datasets import ALLOCATOR_SETTINGS
from gpuyard.datasets.data_pass import DataPass, PartitionTask
from gpuyard.datasets.engines.data_engine import OnResult
from gpuyard.datasets.execute import execute
from gpuyard.errors import ExternalError, GpuyardError, InputError

_RETRIES = 5
CONNECT_TIMEOUT_S = 5.0
_STARTED_HERE = "GPUYARD_RAY"  # set in the environment of a cluster that this process started


@dataclass(frozen=True, slots=True, kw_only=True)
class RayDataEngine:
    """Ray cluster at an address; without one, that of RAY_ADDRESS, or one started for the run.

    An address is HOST:6379 or ray://HOST:10001. The folders of the source and of the output must be
    the same on every node.
    """

    address: str | None = None
    cpus: int = 1  # per task; Polars gets the same number of threads
    in_flight: int = 2  # partitions that share a node's memory

    @property
    def name(self) -> str:
        return "ray"

    def run(self, data_pass: DataPass, tasks: Sequence[PartitionTask], on_result: OnResult) -> None:
        ray, started_here = self.connect()
        total = int(ray.cluster_resources().get("CPU", 1))
        environment = None if started_here else {"env_vars": _environment(self.cpus)}
        remote = ray.remote(
            # 0 if the waiting process may hold the only CPU
            num_cpus=self.cpus if total > self.cpus else 0,
            max_retries=_RETRIES,
            retry_exceptions=[OSError],
            runtime_env=environment,
        )(execute)
        shared = ray.put(data_pass)
        limit = max(2, 2 * total // self.cpus)
        waiting: dict[Any, PartitionTask] = {}
        queue = iter(tasks)
        while True:
            while len(waiting) < limit and (task := next(queue, None)) is not None:
                waiting[remote.remote(shared, task)] = task
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                on_result(waiting.pop(reference), result_of(ray, reference))

    def connect(self) -> tuple[Any, bool]:
        """Return Ray, and whether its workers inherit the environment of this process."""
        import ray

        if ray.is_initialized():
            return ray, os.environ.get(_STARTED_HERE) == "1"
        address = ray_address(self.address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address is None:  # inherited by the workers, which is cheaper than an env per task
            os.environ.update(_environment(self.cpus) | {_STARTED_HERE: "1"})
        try:
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level="error",
                include_dashboard=False,
            )
        except Exception as error:  # Ray raises a bare one when its daemons do not start in time
            if address is None:
                fix = "free resources on this host, or name a running cluster with --address"
                raise ExternalError("ray", f"cannot be started: {error}", fix) from None
            what = f"cannot be reached: {error}"
            raise ExternalError(f"ray at {address}", what, "check the address") from None
        return ray, address is None


def ray_address(named: str | None = None) -> str | None:
    """Return the address of a reachable cluster, or None to start one.

    Ray itself would wait for minutes for a cluster that does not answer.
    """
    where, address = ("ray", named) if named else ("RAY_ADDRESS", os.environ.get("RAY_ADDRESS"))
    if not address or address == "local":
        return None
    scheme, _, place = address.rpartition("://")
    host, _, port = place.partition("/")[0].rpartition(":")
    if scheme not in ("", "ray") or not host or not port.isdigit():
        fix = "write HOST:6379 (the head node) or ray://HOST:10001, not the http:// of a dashboard"
        raise InputError.one(where, f'"{address}" is not the address of a Ray cluster', fix)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        fix = "start the cluster, check the address, or omit it to start Ray on this host"
        raise ExternalError(f"{where}: {address}", f"does not answer: {error}", fix) from None
    return address


def _environment(cpus: int) -> dict[str, str]:
    return {"POLARS_MAX_THREADS": str(cpus), "_RJEM_MALLOC_CONF": ALLOCATOR_SETTINGS}


def result_of(ray: Any, reference: Any) -> Any:
    """Return the result of a task; raise our own errors as the task raised them."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, GpuyardError):
            raise cause from None
        raise
    except ray.exceptions.RayError as error:
        raise ExternalError(
            "ray", str(error).splitlines()[0], "check the state and logs of the cluster"
        ) from error
