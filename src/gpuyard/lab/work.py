"""Processes of one job, one on every server of a lab, each with its server's name, addresses and rank."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import RefusedError
from gpuyard.fabric import Device
from gpuyard.home import write_whole
from gpuyard.lab import host
from gpuyard.lab.wires import Lab

__all__ = ["PORT", "Job", "address_of", "start"]

PORT = 29500  # of the rendezvous: the lab's servers have networks of their own, so no other job is in its way
# A process has its server's name, and knows the others by theirs, as on machines of their own.
_NAMED = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """The processes of a job, by rank."""

    processes: tuple[subprocess.Popen[bytes], ...]
    logs: tuple[Path, ...]

    def wait(self, limit_s: float, look: Callable[[], None] = lambda: None) -> None:
        """Waits until all are done; when one fails, the others are ended and RefusedError says which and why."""
        end_s = time.monotonic() + limit_s
        try:
            while any(process.poll() is None for process in self.processes):
                look()
                for rank, process in enumerate(self.processes):
                    if process.poll():
                        raise RefusedError(f"rank {rank}", self.last_words(rank), f"see {self.logs[rank]}")
                if time.monotonic() > end_s:
                    raise RefusedError("lab run", f"not done after {limit_s:g} s", f"see {self.logs[0]}")
                time.sleep(0.05)
            failed = [rank for rank, process in enumerate(self.processes) if process.returncode]
            if failed:
                raise RefusedError(f"rank {failed[0]}", self.last_words(failed[0]), f"see {self.logs[failed[0]]}")
        finally:
            self.end()

    def last_words(self, rank: int) -> str:
        """The last line that a process wrote."""
        lines = [line for line in self.logs[rank].read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"exit {self.processes[rank].returncode}"

    def end(self) -> None:
        """Ends what still runs."""
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def address_of(device: Device, rail: int = 0) -> str:
    """The address of a server on a rail."""
    return (device.interfaces[rail].address or "").partition("/")[0]


def start(
    lab: Lab, words: Sequence[str], folder: Path, *, servers: Sequence[Device], env: Mapping[str, str] | None = None
) -> Job:
    """Starts the command on every one of the servers; a rank is a place in `servers`."""
    hosts = folder / "hosts"
    names = [f"{address_of(device)} {device.name}" for device in lab.fabric.servers]
    write_whole(hosts, "\n".join(["127.0.0.1 localhost", *names]) + "\n")
    processes, logs = [], []
    for rank, device in enumerate(servers):
        log = folder / f"rank-{rank}.log"
        variables = {
            **os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(servers)), "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1", "NODE_RANK": str(rank), "MASTER_ADDR": address_of(servers[0]),
            "MASTER_PORT": str(PORT),
            "GLOO_SOCKET_IFNAME": ",".join(port.port for port in device.interfaces), "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", **(env or {}),
        }  # fmt: skip
        command = host.inside(
            lab.namespace(device.name),
            [host.tool("unshare"), "--uts", "--mount", "sh", "-c", _NAMED, "sh", device.name, str(hosts), *words],
        )
        with log.open("ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=variables, start_new_session=True)
        processes.append(process)
        logs.append(log)
    return Job(processes=tuple(processes), logs=tuple(logs))
