"""Small pipelines, and processes of gpuyard that are watched and killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.jobs import Ledger, Run
from gpuyard.serving import Endpoints, stop

LONG_S = 300  # a ceiling: busy machines are no failure
IRIS = """\
task: pretraining
name: iris
where: {provider: local}
pipeline:
  data:
    source: sklearn:iris
    label: target
    steps: [{zscore: {}}]
    split: {test: 20%, stratify: true, seed: 7}
  train: {seed: 0, trees: {rounds: 20, leaves: 4}}
  evaluate: {folds: 3, metrics: [log_loss, accuracy]}
  deploy: {name: iris, port: 0}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A run that is done, and where."""

    path: Path
    home: Home
    run: Run


def end_services(home: Home) -> None:
    """Stops every service of a state directory."""
    for endpoint in Endpoints(home=home).all():
        stop(endpoint)


def running(folder: Path) -> dict[int, str]:
    """The processes whose command names something below the folder."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(path.parent.name) != os.getpid():
            found[int(path.parent.name)] = words
    return found


def nothing_runs(folder: Path) -> None:
    """Fails where something still runs after a while."""
    until_s = time.monotonic() + 60
    while (left := running(folder)) and time.monotonic() < until_s:
        time.sleep(0.2)
    assert not left


OWN = """\
task: pretraining
name: own
where: {provider: local}
pipeline:
  train: {command: {run: [PYTHON, train.py]}}
  run: {retries: 0}
"""


def own(folder: Path, script: str) -> Path:
    """A workload that trains by a script."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(script, encoding="utf-8")
    path = folder / "workload.yaml"
    path.write_text(OWN.replace("PYTHON", sys.executable), encoding="utf-8")
    return path


@contextlib.contextmanager
def started(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A gpuyard of its own; killed at the end, with nothing else."""
    command = [sys.executable, "-m", "gpuyard", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)


def reached(home: Home, stage: str, process: subprocess.Popen[str]) -> Run:
    """The last run, once that stage has begun, or the process has ended."""
    until_s = time.monotonic() + LONG_S
    while time.monotonic() < until_s:
        with contextlib.suppress(InputError):
            run = Ledger(home=home).get("last")
            found = run.stage(stage)
            if (found and found.state != "pending") or process.poll() is not None:
                return run
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        time.sleep(0.05)
    raise AssertionError(f"{stage} did not begin")
