"""A Slurm cluster of this host alone: a controller and four nodes that pretend to be A3 Ultra machines."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuyard.jobs.rendezvous import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
NODE_COUNT, GPU_COUNT = 4, 8
START_S = 300  # a ceiling: busy machines are no failure
NVIDIA_MAJOR = 195  # any character device will do: GRES wants a file that exists


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster; its commands are run with its configuration."""

    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A Slurm command."""
        environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=START_S, check=False
        )


def missing() -> str:
    """Why the cluster cannot be started here; empty where it can."""
    lacking = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed (Debian: slurm-wlm, munge)"
    return (
        ""
        if os.geteuid() == 0
        else "needs root: munge, slurmctld and slurmd as one user, device files"
    )


def _path() -> str:
    """Where daemons are."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _ports(count: int) -> list[int]:
    """Ports that nobody uses."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return sorted(ports)


def _configure(folder: Path) -> None:
    """Writes slurm.conf, gres.conf and topology.conf."""
    control, *nodes = _ports(NODE_COUNT + 1)
    host = socket.gethostname()
    for index in range(GPU_COUNT):
        os.mknod(folder / f"nvidia{index}", stat.S_IFCHR | 0o666, os.makedev(NVIDIA_MAJOR, index))
    lines = [
        "ClusterName=yard",
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
        "SelectTypeParameters=CR_Core_Memory",
        "TopologyPlugin=topology/tree",
        "GresTypes=gpu",
        "MpiDefault=none",
        "ReturnToService=2",
    ]
    machine = (
        "CPUs=224 Boards=1 SocketsPerBoard=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2952000"
    )
    for index, port in enumerate(nodes):
        lines.append(
            f"NodeName=a3u-{index} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {machine} "
            f"Gres=gpu:h200:{GPU_COUNT} State=UNKNOWN"
        )
    lines.append(
        f"PartitionName=a3u Nodes=a3u-[0-{NODE_COUNT - 1}] Default=YES MaxTime=7-0 State=UP"
    )
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    devices = f"{folder}/nvidia[0-{GPU_COUNT - 1}]"
    (folder / "gres.conf").write_text(
        f"NodeName=a3u-[0-{NODE_COUNT - 1}] Name=gpu Type=h200 File={devices}\n"
    )
    (folder / "topology.conf").write_text(
        "SwitchName=sb0 Nodes=a3u-[0-1]\nSwitchName=sb1 Nodes=a3u-[2-3]\nSwitchName=block Switches=sb[0-1]\n"
    )


@contextlib.contextmanager
def slurm_cluster() -> Iterator[Cluster]:
    """A cluster that is ready, and is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="yard-slurm-", dir="/tmp"))
    folder.chmod(0o755)
    started: list[subprocess.Popen[bytes]] = []
    try:
        (folder / "state").mkdir()
        _configure(folder)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
        commands = [
            [
                "munged",
                "--foreground",
                "--force",
                f"--key-file={key}",
                f"--socket={folder / 'munge.socket'}",
                f"--pid-file={folder / 'munged.pid'}",
                f"--log-file={folder / 'munged.log'}",
                f"--seed-file={folder / 'munged.seed'}",
            ],
            ["slurmctld", "-D"],
            *(["slurmd", "-D", "-N", f"a3u-{index}"] for index in range(NODE_COUNT)),
        ]
        with (folder / "daemons.log").open("wb") as log:
            for command in commands:
                started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
                until_s = time.monotonic() + START_S
                while not (folder / "munge.socket").exists() and time.monotonic() < until_s:
                    time.sleep(0.05)
        cluster = Cluster(folder=folder)
        _wait(cluster)
        yield cluster
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(cluster: Cluster) -> None:
    """Until every node is idle."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        states = cluster.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()
        if states == ["idle"] * NODE_COUNT:
            return
        time.sleep(0.5)
    logs = "\n".join(
        f"{path.name}: {path.read_text(errors='replace')[-2000:]}"
        for path in cluster.folder.glob("*.log")
    )
    raise RuntimeError(f"the cluster did not start: {states}\n{logs}")
