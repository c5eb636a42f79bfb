"""Small pipelines, and gpuyard processes that tests watch and kill."""

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
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import Run
from gpuyard.serving.deploy import stop
from gpuyard.serving.endpoints import Endpoints

LONG_S = 300  # an upper bound for busy machines
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
class FinishedRun:
    """A finished run with its workload and state directory."""

    path: Path
    home: Home
    run: Run


def stop_services(home: Home) -> None:
    """Stop every service of a state directory."""
    for endpoint in Endpoints(home=home).all():
        stop(endpoint)


def processes_of(folder: Path) -> dict[int, str]:
    """Processes whose command line names a path in the folder."""
    processes = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(path.parent.name) != os.getpid():
            processes[int(path.parent.name)] = words
    return processes


def assert_nothing_runs(folder: Path) -> None:
    """Fail if a process of the folder is still running after a while."""
    until_s = time.monotonic() + LONG_S
    while (left := processes_of(folder)) and time.monotonic() < until_s:
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


def script_workload(folder: Path, script: str) -> Path:
    """Write a workload that trains with a script."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(script, encoding="utf-8")
    path = folder / "workload.yaml"
    path.write_text(OWN.replace("PYTHON", sys.executable), encoding="utf-8")
    return path


@contextlib.contextmanager
def gpuyard_process(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A gpuyard process that gets SIGKILL at the end; its children do not."""
    command = [sys.executable, "-m", "gpuyard", *map(str, words)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)


def wait_for_stage(home: Home, stage: str, process: subprocess.Popen[str]) -> Run:
    """Wait until a stage has started or the process has ended; return the last run."""
    until_s = time.monotonic() + LONG_S
    while time.monotonic() < until_s:
        with contextlib.suppress(InputError):
            run = Ledger(home=home).get("last")
            row = run.stage(stage)
            if (row and row.state != "pending") or process.poll() is not None:
                return run
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        time.sleep(0.05)
    raise AssertionError(f"{stage} did not begin")
