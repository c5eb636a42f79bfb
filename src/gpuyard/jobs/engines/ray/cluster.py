"""A Ray of this machine for tasks that name no cluster: started when it is wanted, shared, gone when it is idle."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document import load_json
from gpuyard.errors import InputError, RefusedError
from gpuyard.jobs.process import Process, alive

__all__ = ["Cluster", "Kept", "kept_cluster", "local_cluster", "ray_folder"]

START_S = 120.0
STEP_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where a Ray dashboard answers, and the file with its token."""

    address: str
    token_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A cluster of this machine and the process that keeps it."""

    cluster: Cluster
    keeper: Process


def ray_folder() -> Path:
    """Where the Ray of this user keeps its files; short, for sockets lie below it."""
    return Path(tempfile.gettempdir()) / f"gpuyard-ray-{os.getuid()}"


def kept_cluster(folder: Path) -> Kept | None:
    """The cluster that runs from that folder; None if none does."""
    file = folder / "kept.json"
    try:
        kept = load_json(file.read_text(encoding="utf-8"), Kept, str(file))
    except (OSError, InputError):
        return None
    return kept if alive(kept.keeper) else None


def local_cluster() -> Cluster:
    """The Ray of this machine, started if it does not run."""
    if importlib.util.find_spec("ray") is None:
        raise RefusedError("engine: ray", "Ray is not installed", "pip install 'gpuyard[ray]', or name its address")
    folder = ray_folder()
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        kept = kept_cluster(folder)
        if kept:
            return kept.cluster
        command = [sys.executable, "-m", "gpuyard.jobs.engines.ray.keeper", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise RefusedError("engine: ray", f"Ray does not start: {said}", f"see {folder / 'ray.log'}")
        time.sleep(STEP_S)
    raise RefusedError("engine: ray", f"Ray did not start within {START_S:g} s", f"see {folder / 'ray.log'}")
