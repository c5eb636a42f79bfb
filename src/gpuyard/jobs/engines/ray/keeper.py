"""Keeper of the local Ray cluster: `python -m gpuyard.jobs.engines.ray.keeper FOLDER`.

Returns once the cluster responds. The keeper stays in the background and stops the cluster when it
is idle. Ray runs under a reaper, so that it also stops if the keeper is killed. `ray stop` is not
used, because it would stop every Ray on the host.
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

from gpuyard.document.encode import dump_json
from gpuyard.errors import ExternalError
from gpuyard.home import private_directory, write_atomic
from gpuyard.http import NO_RETRY, HttpClient
from gpuyard.jobs.engines import process_reaper
from gpuyard.jobs.engines.ray.cluster import LocalRayCluster, RayClusterAddress
from gpuyard.jobs.process import this_process
from gpuyard.jobs.rendezvous import free_port

START_S = 100.0
IDLE_S = 60.0
POLL_S = 2.0
GRACE_S = 15.0


def _command(dashboard_port: int) -> list[str]:
    ports = {
        "port": free_port(),
        "dashboard-port": dashboard_port,
        "dashboard-agent-listen-port": free_port(),
        "dashboard-agent-grpc-port": free_port(),
        "metrics-export-port": free_port(),
        "ray-client-server-port": free_port(),
    }
    return [
        sys.executable,
        "-I",
        "-S",
        str(Path(process_reaper.__file__)),
        str(GRACE_S),
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--head",
        "--block",
        "--include-dashboard=true",
        "--dashboard-host=127.0.0.1",
        "--node-ip-address=127.0.0.1",
        "--disable-usage-stats",
        *(f"--{name}={port}" for name, port in ports.items()),
    ]


def _environment(token: Path) -> dict[str, str]:
    token.write_text(secrets.token_hex(32), encoding="ascii")
    token.chmod(0o600)
    # Without the address or token of another cluster.
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith("RAY_A")}
    return inherited | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        # In the default folder, every ray.init() on this host would connect and need the token.
        "RAY_TMPDIR": str(token.parent),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
    }


def _wait(client: HttpClient, ray: subprocess.Popen[bytes]) -> bool:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and ray.poll() is None:
        with contextlib.suppress(ExternalError):
            client.json("GET", "/api/jobs/")
            return True
        time.sleep(0.2)
    return False


def _is_busy(client: HttpClient) -> bool:
    jobs = client.json("GET", "/api/jobs/")
    rows = jobs if isinstance(jobs, list) else []
    return any(
        isinstance(job, dict) and job.get("status") in ("PENDING", "RUNNING") for job in rows
    )


def _keep(folder: Path, ready: int) -> None:
    port, token = free_port(), folder / "token"
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with (folder / "ray.log").open("wb") as log:
        ray = subprocess.Popen(
            _command(port),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=_environment(token),
            cwd=folder,
            start_new_session=True,
        )
    cluster = RayClusterAddress(address=f"http://127.0.0.1:{port}", token_file=str(token))
    bearer = f"Bearer {token.read_text(encoding='ascii')}"
    client = HttpClient(base=cluster.address, authorization=bearer, retry=NO_RETRY)
    try:
        if _wait(client, ray):
            write_atomic(
                folder / "kept.json",
                dump_json(LocalRayCluster(cluster=cluster, keeper=this_process())),
            )
            os.write(ready, b"1")
            os.close(ready)
            busy_s = time.monotonic()
            while ray.poll() is None and not stopped and time.monotonic() - busy_s < IDLE_S:
                time.sleep(POLL_S)
                with contextlib.suppress(ExternalError):
                    busy_s = time.monotonic() if _is_busy(client) else busy_s
    finally:
        (folder / "kept.json").unlink(missing_ok=True)
        assert ray.stdin
        ray.stdin.close()
        ray.wait()


def main(folder: Path) -> int:
    """Start a keeper unless one runs. Return 0 once its cluster responds."""
    private_directory(folder)
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0  # another keeper runs, and its cluster with it
        ready, notify = os.pipe()
        if os.fork():
            os.close(notify)
            return 0 if os.read(ready, 1) else 1
        os.close(ready)
        os.setsid()
        with contextlib.suppress(BaseException):
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            _keep(folder, notify)
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
