"""Runs a job in a lab: one process per server, with the server's hostname, addresses and rank."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import ExternalError
from gpuyard.fabric.fabric import Device
from gpuyard.home import write_atomic
from gpuyard.lab import host
from gpuyard.lab.links import Lab

PORT = 29500  # of the rendezvous; each server has its own network, so the port is always free
# A process sees its server's hostname and resolves those of the others, as on separate machines.
_NAMED = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabJob:
    """The processes of a job, by rank."""

    processes: tuple[subprocess.Popen[bytes], ...]
    logs: tuple[Path, ...]

    def wait(self, limit_s: float, poll: Callable[[], None] = lambda: None) -> None:
        """Wait for all processes; if one fails, kill the others and raise ExternalError."""
        end_s = time.monotonic() + limit_s
        try:
            while any(process.poll() is None for process in self.processes):
                poll()
                self._raise_if_failed()
                if time.monotonic() > end_s:
                    raise ExternalError(
                        "lab run", f"not done after {limit_s:g} s", f"see {self.logs[0]}"
                    )
                time.sleep(0.05)
            self._raise_if_failed()
        finally:
            self.kill()

    def _raise_if_failed(self) -> None:
        for rank, process in enumerate(self.processes):
            if process.poll():
                raise ExternalError(f"rank {rank}", self._last_line(rank), f"see {self.logs[rank]}")

    def _last_line(self, rank: int) -> str:
        lines = [
            line
            for line in self.logs[rank].read_text(errors="replace").splitlines()
            if line.strip()
        ]
        return lines[-1] if lines else f"exit {self.processes[rank].returncode}"

    def kill(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def address_of(device: Device, rail: int = 0) -> str:
    """Return the address of a server on a rail."""
    return (device.interfaces[rail].address or "").partition("/")[0]


def start(
    lab: Lab,
    arguments: Sequence[str],
    folder: Path,
    *,
    servers: Sequence[Device],
    env: Mapping[str, str] | None = None,
) -> LabJob:
    """Start a command on the servers; the rank is the index in `servers`."""
    hosts = folder / "hosts"
    names = [f"{address_of(device)} {device.name}" for device in lab.fabric.servers]
    write_atomic(hosts, "\n".join(["127.0.0.1 localhost", *names]) + "\n")
    processes, logs = [], []
    for rank, device in enumerate(servers):
        log = folder / f"rank-{rank}.log"
        variables = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(len(servers)),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "NODE_RANK": str(rank),
            "MASTER_ADDR": address_of(servers[0]),
            "MASTER_PORT": str(PORT),
            "GLOO_SOCKET_IFNAME": ",".join(port.port for port in device.interfaces),
            "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            **(env or {}),
        }
        unshare = [host.tool("unshare"), "--uts", "--mount", "sh", "-c", _NAMED, "sh"]
        command = host.inside(
            lab.namespace(device.name), [*unshare, device.name, str(hosts), *arguments]
        )
        with log.open("ab") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=out, env=variables, start_new_session=True
            )
        processes.append(process)
        logs.append(log)
    return LabJob(processes=tuple(processes), logs=tuple(logs))
