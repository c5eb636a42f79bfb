"""A Slurm of this host alone: a controller and two small nodes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpuyard.jobs.rendezvous import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
NODES = ("n1", "n2")
START_S = 300  # a ceiling: busy machines are no failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster and the daemons of its nodes."""

    folder: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def config(self) -> str:
        """Its slurm.conf."""
        return str(self.folder / "slurm.conf")

    def run(self, *command: str) -> str:
        """The output of a Slurm command."""
        environment = {**os.environ, "SLURM_CONF": self.config}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=START_S, check=False
        ).stdout

    def start(self, node: str) -> None:
        """Starts the daemon of a node."""
        self.daemons[node] = _daemon(self.folder, "slurmd", "-D", "-N", node)

    def kill(self, node: str) -> None:
        """Kills the daemon of a node and what runs there, as a power cut would."""
        self.daemons[node].kill()
        self.daemons[node].wait()
        steps = [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/environ")
            if {f"SLURMD_NODENAME={node}".encode(), f"SLURM_CONF={self.config}".encode()}
            <= set(_environment(path))
        ]
        parents = {
            int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            for pid in steps
        }
        for pid in {*parents, *steps} - {
            1,
            os.getpid(),
            *(each.pid for each in self.daemons.values()),
        }:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def wait(self) -> None:
        """Until every node is idle."""
        deadline = time.monotonic() + START_S
        states: list[str] = []
        while time.monotonic() < deadline:
            states = self.run("sinfo", "--noheader", "--Node", "--format=%T").split()
            if states == ["idle"] * len(NODES):
                return
            time.sleep(0.2)
        logs = "\n".join(
            f"{path.name}: {path.read_text(errors='replace')[-2000:]}"
            for path in self.folder.glob("*.log")
        )
        raise RuntimeError(f"the cluster is not ready: {states}\n{logs}")


def _environment(path: Path) -> list[bytes]:
    """The variables of a process; none if it is gone."""
    with contextlib.suppress(OSError):
        return path.read_bytes().split(b"\0")
    return []


def missing() -> str:
    """Why the cluster cannot be started here; empty where it can."""
    lacking = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed (Debian: slurm-wlm, munge)"
    return "" if os.geteuid() == 0 else "needs root: munge, slurmctld and slurmd as one user"


def _path() -> str:
    """Where daemons are."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until a daemon has made a file."""
    deadline = time.monotonic() + START_S
    while not path.exists():
        assert process.poll() is None, path
        assert time.monotonic() < deadline, path
        time.sleep(0.05)


def _daemon(folder: Path, *command: str) -> subprocess.Popen[bytes]:
    """A daemon in the foreground of its own process."""
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def _ports(count: int) -> list[int]:
    """Ports that nobody uses."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return sorted(ports)


def _configure(folder: Path) -> None:
    """Writes slurm.conf."""
    control, *ports = _ports(len(NODES) + 1)
    host = socket.gethostname()
    lines = [
        "ClusterName=contract",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={control}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={folder / 'munge.socket'}",
        "CredType=cred/munge",
        f"StateSaveLocation={folder / 'state'}",
        f"SlurmdSpoolDir={folder / 'spool'}-%n",
        f"SlurmctldPidFile={folder / 'slurmctld.pid'}",
        f"SlurmdPidFile={folder / 'slurmd'}-%n.pid",
        f"SlurmctldLogFile={folder / 'slurmctld.log'}",
        f"SlurmdLogFile={folder / 'slurmd'}-%n.log",
        "SlurmdParameters=config_overrides",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "MpiDefault=none",
        "ReturnToService=2",
        "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1,sched_interval=1",
        "KillWait=2",
        "SlurmdTimeout=6",
    ]
    machine = "CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=4000"
    for node, port in zip(NODES, ports, strict=True):
        lines.append(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {machine} State=UNKNOWN"
        )
    lines.append(
        f"PartitionName=main Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP"
    )
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")


@contextlib.contextmanager
def slurm_cluster() -> Iterator[Cluster]:
    """A cluster that is ready, and is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="yard-slurm-"))
    folder.chmod(0o755)
    cluster = Cluster(folder=folder)
    try:
        (folder / "state").mkdir()
        _configure(folder)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        cluster.daemons["munged"] = _daemon(
            folder,
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={folder / 'munge.socket'}",
            f"--pid-file={folder / 'munged.pid'}",
            f"--log-file={folder / 'munged.log'}",
            f"--seed-file={folder / 'munged.seed'}",
        )
        _wait_for(folder / "munge.socket", cluster.daemons["munged"])
        cluster.daemons["slurmctld"] = _daemon(folder, "slurmctld", "-D")
        for node in NODES:
            cluster.start(node)
        cluster.wait()
        yield cluster
    finally:
        for process in reversed(cluster.daemons.values()):
            process.terminate()
        for process in cluster.daemons.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
