"""Keeps a Ray of this machine while it has jobs: `python -m gpuyard.jobs.engines.ray.keeper FOLDER`.

Returns once the cluster answers. The keeper stays in the background and ends the cluster when it has had no job for a
while. Ray runs under a guard, so that it also ends if the keeper is killed. `ray stop` is not used: it would end every
Ray of the machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

from gpuyard.document import dump_json
from gpuyard.errors import RefusedError
from gpuyard.home import write_whole
from gpuyard.jobs.engines import guard
from gpuyard.jobs.engines.ray.cluster import Cluster, Kept
from gpuyard.jobs.http import Api, HttpError
from gpuyard.jobs.process import this_process
from gpuyard.jobs.rendezvous import free_port

__all__ = ["main"]

START_S = 100.0
IDLE_S = 60.0
LOOK_S = 2.0
GRACE_S = 15.0


def _command(dashboard_port: int) -> list[str]:
    """A head with ports of its own, so that it stands beside any other Ray."""
    ports = {
        "port": free_port(), "dashboard-port": dashboard_port, "dashboard-agent-listen-port": free_port(),
        "dashboard-agent-grpc-port": free_port(), "metrics-export-port": free_port(),
        "ray-client-server-port": free_port(),
    }  # fmt: skip
    return [
        sys.executable, "-I", "-S", str(Path(guard.__file__)), str(GRACE_S), sys.executable, "-m",
        "ray.scripts.scripts", "start", "--head", "--block", "--include-dashboard=true", "--dashboard-host=127.0.0.1",
        "--node-ip-address=127.0.0.1", "--disable-usage-stats",
        *(f"--{name}={port}" for name, port in ports.items()),
    ]  # fmt: skip


def _environment(token: Path) -> dict[str, str]:
    """Ray's environment: a token of its own, this Python for its drivers, no other cluster."""
    token.write_text(secrets.token_hex(32), encoding="ascii")
    token.chmod(0o600)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("RAY_A")
    }  # no other address or token
    return kept | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": str(token.parent),  # else every ray.init of this machine would find it and want its token
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
    }


def _wait(api: Api, ray: subprocess.Popen[bytes]) -> bool:
    """Whether the job API answers in time."""
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and ray.poll() is None:
        with contextlib.suppress(RefusedError, HttpError):
            api.call("GET", "/api/jobs/")
            return True
        time.sleep(0.2)
    return False


def _busy(api: Api) -> bool:
    """Whether a job waits or runs."""
    jobs = api.call("GET", "/api/jobs/")
    rows = jobs if isinstance(jobs, list) else []
    return any(isinstance(job, dict) and job.get("status") in ("PENDING", "RUNNING") for job in rows)


def _keep(folder: Path, ready: int) -> None:
    """The background process: starts Ray, tells when it is ready, ends it when it is idle."""
    port, token = free_port(), folder / "token"
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with (folder / "ray.log").open("wb") as log:
        ray = subprocess.Popen(
            _command(port), stdin=subprocess.PIPE, stdout=log, stderr=log, env=_environment(token), cwd=folder,
            start_new_session=True,
        )  # fmt: skip
    cluster = Cluster(address=f"http://127.0.0.1:{port}", token_file=str(token))
    bearer = ("Authorization", f"Bearer {token.read_text(encoding='ascii')}")
    api = Api(base=cluster.address, headers=(bearer,), tries=1)
    try:
        if _wait(api, ray):
            write_whole(folder / "kept.json", dump_json(Kept(cluster=cluster, keeper=this_process())))
            os.write(ready, b"1")
            os.close(ready)
            seen_s = time.monotonic()
            while ray.poll() is None and not stopped and time.monotonic() - seen_s < IDLE_S:
                time.sleep(LOOK_S)
                with contextlib.suppress(RefusedError, HttpError):
                    seen_s = time.monotonic() if _busy(api) else seen_s
    finally:
        (folder / "kept.json").unlink(missing_ok=True)
        assert ray.stdin
        ray.stdin.close()
        ray.wait()


def main(folder: Path) -> int:
    """Starts a keeper unless one runs; gives 0 once its cluster answers."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0  # another keeper is at work: its cluster is there or will be
        ready, tell = os.pipe()
        if os.fork():
            os.close(tell)
            return 0 if os.read(ready, 1) else 1
        os.close(ready)
        os.setsid()
        with contextlib.suppress(BaseException):
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            _keep(folder, tell)
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
