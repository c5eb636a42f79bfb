"""Rendezvous environment that torchrun, JAX and mpirun scripts read."""

from __future__ import annotations

import contextlib
import random
import socket
from dataclasses import dataclass
from pathlib import Path

from gpuyard.jobs.task import Task

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORTS = range(20_000, 30_000)  # Ray's workers take 10,002 to 19,999, Kubernetes 30,000 to 32,767
PORT_TRIES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Address, port and interface of the first process."""

    address: str
    port: int
    interface: str = ""


def shared_environment(task: Task, interface: str = "") -> tuple[tuple[str, str], ...]:
    """Return the variables that are the same for every rank; the task's own variables win."""
    variables = {
        "GPUYARD_JOB": task.id,
        "GPUYARD_COPIES": str(task.copies),
        "WORLD_SIZE": str(task.processes),
        "LOCAL_WORLD_SIZE": str(task.processes_per_node),
        "PYTHONUNBUFFERED": "1",  # so that logs are followed line by line
        "OMP_NUM_THREADS": str(task.cores_per_process),
        # A restarted group must not find the old addresses in torchrun's store
        # (pytorch/pytorch#135712).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    if interface:
        variables |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    return tuple((variables | dict(task.env)).items())


def rank_environment(
    task: Task, rendezvous: Rendezvous, *, rank: int, index: int, attempt: int
) -> tuple[tuple[str, str], ...]:
    """Return all variables of one rank, without those it inherits."""
    node, local = divmod(rank, task.processes_per_node)
    return (
        *shared_environment(task, rendezvous.interface),
        ("RANK", str(rank)),
        ("LOCAL_RANK", str(local)),
        ("NODE_RANK", str(node)),
        ("MASTER_ADDR", rendezvous.address),
        ("MASTER_PORT", str(rendezvous.port)),
        ("GPUYARD_INDEX", str(index)),
        ("GPUYARD_ATTEMPT", str(attempt)),
    )


def free_port() -> int:
    """Return an unused port of this host.

    It is below the range from which the kernel takes ports for connections, so that none of them
    gets it before the process for which it is meant has bound it.
    """
    ports = range(PORTS.start, min(PORTS.stop, _first_ephemeral_port()))
    for _ in range(PORT_TRIES if ports else 0):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("", random.choice(ports)))
            return int(listener.getsockname()[1])
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def _first_ephemeral_port() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(EPHEMERAL.read_text(encoding="ascii").split()[0])
    return 0
