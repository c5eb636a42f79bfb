"""How the processes of a task meet: the environment that torchrun, JAX and mpirun scripts read."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from gpuyard.jobs.task import Task

__all__ = ["Meeting", "free_port", "rank_environment", "shared_environment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where the first process listens for the others, and over which interface."""

    address: str
    port: int
    interface: str = ""


def shared_environment(task: Task, interface: str = "") -> tuple[tuple[str, str], ...]:
    """What every process of the task sees, whatever its rank; the task's own variables win."""
    given = {
        "GPUYARD_JOB": task.id,
        "GPUYARD_COPIES": str(task.copies),
        "WORLD_SIZE": str(task.processes),
        "LOCAL_WORLD_SIZE": str(task.processes_per_node),
        "PYTHONUNBUFFERED": "1",  # so that logs are followed line by line
        "OMP_NUM_THREADS": str(task.cores_per_process),
        # A restarted group must not meet the dead one's addresses in torchrun's store (pytorch/pytorch#135712).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    if interface:
        given |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    return tuple((given | dict(task.env)).items())


def rank_environment(
    task: Task, meeting: Meeting, *, rank: int, index: int, attempt: int
) -> tuple[tuple[str, str], ...]:
    """The whole environment of one process, beside what it inherits."""
    node, local = divmod(rank, task.processes_per_node)
    return (
        *shared_environment(task, meeting.interface),
        ("RANK", str(rank)),
        ("LOCAL_RANK", str(local)),
        ("NODE_RANK", str(node)),
        ("MASTER_ADDR", meeting.address),
        ("MASTER_PORT", str(meeting.port)),
        ("GPUYARD_INDEX", str(index)),
        ("GPUYARD_ATTEMPT", str(attempt)),
    )


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])
