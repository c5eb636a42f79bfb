"""Places that run tasks: this machine, a Kubernetes, a Slurm and a Ray, each gone afterwards."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuyard.jobs.engines import open_engine, process_reaper
from gpuyard.jobs.engines.ray import cluster as ray_cluster
from gpuyard.jobs.process import is_alive, send
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Engine, Handle, Task, TaskStatus, new_id

from . import kube, slurm

ALL = os.environ.get("GPUYARD_REQUIRE_ALL") == "1"
LONG_S = 300  # a ceiling: busy machines are no failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An engine, and how one of its nodes is lost."""

    spec: EngineSpec
    folder: Path
    lose_node: Callable[[Handle], None] | None = None

    @property
    def engine(self) -> Engine:
        """The engine, opened anew: nothing is remembered but the handle."""
        return open_engine(self.spec)

    def task(self, mode: str, **changes: object) -> Task:
        """A task that runs one mode of the program."""
        name = new_id(mode)
        folder = self.folder / name
        folder.mkdir()
        program = str(Path(__file__).with_name("program.py"))
        # Slurm finds a child that forgot its parent by its cgroup, which the cluster of this test has not.
        orphan = (
            (("ORPHAN", "1"),) if self.spec.name != "slurm" and mode in ("wait", "late") else ()
        )
        values: dict[str, object] = {"backoff_s": 0.1, "grace_s": 5.0, "env": orphan} | changes
        return Task(id=name, argv=(sys.executable, program, mode), folder=str(folder), **values)  # type: ignore[arg-type]

    def wait(self, handle: Handle, *states: str) -> TaskStatus:
        """The status, once it is one of those states or has ended."""
        deadline_s = time.monotonic() + LONG_S
        while True:
            status = self.engine.status(handle)
            if status.state in states or status.ended:
                return status
            assert time.monotonic() < deadline_s, f"{handle.id} is {status}\n" + self.told(handle)
            time.sleep(0.2)

    def told(self, handle: Handle) -> str:
        """Everything there is to see of a job."""
        return "\n".join(
            f"{path.name}: {path.read_text(errors='replace')[-1500:]}"
            for path in sorted(Path(handle.folder).glob("*log*"))
        )

    def saying(self, handle: Handle, words: str) -> None:
        """Until its log holds the words."""
        deadline_s = time.monotonic() + LONG_S
        while not any(words in line for line in self.engine.logs(handle, follow=False)):
            status = self.engine.status(handle)
            assert not status.ended, f"{status}\n{self.told(handle)}"
            assert time.monotonic() < deadline_s, f"{status}\n{self.told(handle)}"
            time.sleep(0.2)


@contextlib.contextmanager
def place(name: str) -> Iterator[Place]:
    """The place of that name, ready."""
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="yard-jobs-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if name == "local":
            yield Place(spec=EngineSpec(), folder=folder)
        elif name == "kubernetes":
            _, config = stack.enter_context(kube.kubernetes_cluster())
            spec = EngineSpec(
                name="kubernetes",
                config=str(config),
                image="python:3",
                volume_claim="work",
                volume_path=str(folder),
            )
            yield Place(spec=spec, folder=folder)
        elif name == "slurm":
            if slurm.missing() and not ALL:
                pytest.skip(slurm.missing())
            cluster = stack.enter_context(slurm.slurm_cluster())
            yield Place(
                spec=EngineSpec(name="slurm", config=cluster.config),
                folder=folder,
                lose_node=lambda handle: _lose_slurm_node(cluster, handle),
            )
        else:
            yield stack.enter_context(_ray(folder))


def _lose_slurm_node(cluster: slurm.Cluster, handle: Handle) -> None:
    """Kills the daemon of the second node; then the wait that Slurm puts before a requeued job is cut short."""
    number = (Path(handle.folder) / "number").read_text()
    cluster.kill("n2")
    cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=killed")
    deadline_s = time.monotonic() + LONG_S
    while "JobState=PENDING Reason=BeginTime" not in (
        said := cluster.run("scontrol", "show", "job", number)
    ):
        assert time.monotonic() < deadline_s, said
        time.sleep(0.3)
    cluster.start("n2")
    cluster.run("scontrol", "update", "NodeName=n2", "State=RESUME")
    time.sleep(
        2.5
    )  # the old credential is revoked by the second: a new one of the same second would be refused
    cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now")


@contextlib.contextmanager
def _ray(folder: Path) -> Iterator[Place]:
    """The Ray that the engine starts by itself, and a second node that joins it."""
    if shutil.which("ray", path=str(Path(sys.executable).parent)) is None and not ALL:
        pytest.skip("ray is not installed (the extra `ray`)")
    own = Path(tempfile.gettempdir()) / f"yr-{secrets.token_hex(3)}"  # short: sockets lie below it
    given = pytest.MonkeyPatch()
    given.setattr(ray_cluster, "ray_folder", lambda: own)
    # A dead node is found sooner than by default, a busy one is not taken for dead.
    for name, value in {
        "period_ms": "1000",
        "timeout_ms": "5000",
        "failure_threshold": "3",
    }.items():
        given.setenv(f"RAY_health_check_{name}", value)
    node: subprocess.Popen[bytes] | None = None
    try:
        address = ray_cluster.local_cluster().address
        assert address.startswith("http://127.0.0.1:")
        environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(own / "token"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(own),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        named = own / "ray" / "ray_current_cluster"  # written last of all
        while not named.exists():
            time.sleep(0.2)
        head = named.read_text().strip()
        command = [
            "ray",
            "start",
            f"--address={head}",
            "--block",
            "--num-cpus=8",
            "--object-store-memory=100000000",
        ]
        node = _joined(command, environment, folder / "node.log")
        lost = node

        def lose(_: Handle) -> None:
            """Ends the second node and all that runs on it, at once."""
            for pid in _below(lost.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        yield Place(spec=EngineSpec(name="ray"), folder=folder, lose_node=lose)
    finally:
        given.undo()
        if node:
            assert node.stdin
            node.stdin.close()
            node.wait(timeout=LONG_S)
        kept = ray_cluster.kept_cluster(own)
        if kept:
            send(kept.keeper, signal.SIGTERM)
            while is_alive(kept.keeper):
                time.sleep(0.1)
        shutil.rmtree(own, ignore_errors=True)


def _joined(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A second node, once it is part of the cluster; on a busy machine Ray may need several goes."""
    for _ in range(4):
        with log.open("wb") as output:
            node = subprocess.Popen(
                [sys.executable, process_reaper.__file__, "5", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        while node.poll() is None:
            if "Ray runtime started" in log.read_text(errors="replace"):
                return node
            time.sleep(0.2)
    raise RuntimeError(log.read_text(errors="replace"))


def _below(pid: int) -> list[int]:
    """Every process below one."""
    try:
        children = [
            int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []
    return [each for child in children for each in (child, *_below(child))]
