"""A local Ray cluster for tasks that name none: started on demand, shared, stopped when idle."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document.encode import load_json_file
from gpuyard.errors import ExternalError, GpuyardError
from gpuyard.home import private_directory
from gpuyard.jobs.process import Process, is_alive

START_S = 120.0
STEP_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class RayClusterAddress:
    """Dashboard address and token file of a Ray cluster."""

    address: str
    token_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRayCluster:
    """A Ray cluster on this host and its keeper process."""

    cluster: RayClusterAddress
    keeper: Process


def ray_folder() -> Path:
    """Return the folder of this user's local Ray; short, because socket paths are limited."""
    return Path(tempfile.gettempdir()) / f"gpuyard-ray-{os.getuid()}"


def kept_cluster(folder: Path) -> LocalRayCluster | None:
    """Return the cluster that runs from that folder, or None."""
    file = folder / "kept.json"
    try:
        cluster = load_json_file(file, LocalRayCluster)
    except GpuyardError:
        return None
    return cluster if is_alive(cluster.keeper) else None


def local_cluster() -> RayClusterAddress:
    """Return the local Ray cluster; start it if it does not run.

    Raises ExternalError if Ray does not start, or if others can write to its folder.
    """
    if importlib.util.find_spec("ray") is None:
        raise ExternalError(
            "engine: ray", "Ray is not installed", "pip install 'gpuyard[ray]', or name its address"
        )
    # Below the temporary directory another user may have put a folder of that name, with an
    # address to which this user's jobs would be sent.
    folder = private_directory(ray_folder())
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        running = kept_cluster(folder)
        if running:
            return running.cluster
        command = [sys.executable, "-m", "gpuyard.jobs.engines.ray.keeper", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
        if done.returncode:
            message = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise ExternalError(
                "engine: ray", f"Ray does not start: {message}", f"see {folder / 'ray.log'}"
            )
        time.sleep(STEP_S)
    raise ExternalError(
        "engine: ray", f"Ray did not start within {START_S:g} s", f"see {folder / 'ray.log'}"
    )
