"""The program as a process: its environment, its lines of metrics, and its end."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import typing
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuyard.errors import RefusedError
from gpuyard.learn.metrics_log import NAMES, StepMetrics
from gpuyard.learn.ranks import Ranks
from gpuyard.learn.spec import Command
from gpuyard.learn.trainer import StoppedError, TrainerError

__all__ = ["METRICS", "environment", "metrics_of", "run_program"]

METRICS = "GPUYARD_METRICS"
LOOK_S = 0.2
LEAVE_S = 60.0  # for the program's own checkpoint after SIGTERM
KEPT_LINES = 20  # of what it wrote last, for the message when it fails
# The program is killed when the worker is (prctl(2), PR_SET_PDEATHSIG, SIGKILL), so that nothing is left running. A
# step of its own before the program: no function may run between fork and exec where a framework has threads.
DIES_WITH_WORKER = """\
import ctypes, os, sys
sys.platform == "linux" and ctypes.CDLL(None).prctl(1, 9)
os.execvp(sys.argv[1], sys.argv[1:])
"""
LAUNCH = (sys.executable, "-c", DIES_WITH_WORKER)


def environment(spec: Command, ranks: Ranks, *, data: str, folder: Path, seed: int) -> dict[str, str]:
    """What the program finds in its environment."""
    return {
        **os.environ,
        "RANK": str(ranks.rank),
        "WORLD_SIZE": str(ranks.world),
        "LOCAL_RANK": str(ranks.local_rank),
        "LOCAL_WORLD_SIZE": str(ranks.local_world),
        "NODE_RANK": str(ranks.node_rank),
        "MASTER_ADDR": ranks.address,
        "MASTER_PORT": str(ranks.port),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # torchrun: a restarted group must not meet the dead one's addresses
        "DATA_DIR": data,
        "CHECKPOINT_DIR": str(folder / "checkpoints"),
        "GPUYARD_BUNDLE": str(folder / "exported"),
        METRICS: str(folder / f"command-{ranks.rank}.jsonl"),
        "GPUYARD_SEED": str(seed),
        **{variable.name: variable.value for variable in spec.env},
    }


def metrics_of(line: str) -> StepMetrics | None:
    """A line of metrics: a JSON object with a whole number under `step`; None of any other line."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("step"), int) or isinstance(found["step"], bool):
        return None
    numbers = {
        str(name): float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name != "step" and math.isfinite(value)
    }
    known: dict[str, typing.Any] = {name: numbers.pop(name) for name in NAMES if name in numbers}
    if "steps" in known:
        known["steps"] = int(known["steps"])
    return StepMetrics(step=found["step"], others=tuple(sorted(numbers.items())), **known)


def run_program(
    spec: Command, env: dict[str, str], record: Callable[[StepMetrics], bool], stop: Callable[[], bool]
) -> None:
    """Runs the program to its end; StoppedError when `stop` said so, TrainerError when it fails."""
    where = f"train: command: {spec.run[0] if spec.run else ''}"
    if not spec.run or shutil.which(spec.run[0], path=env.get("PATH")) is None:
        raise RefusedError(where, "no such program", "name a program that is on this machine, and its arguments")
    process = subprocess.Popen(
        (*LAUNCH, *spec.run), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    last: deque[str] = deque(maxlen=KEPT_LINES)
    asked = False
    with process:
        try:
            for line in _lines(process, Path(env[METRICS])):
                if line is not None and not _recorded(line, record, last):
                    asked = True
                if (asked or stop()) and process.poll() is None:
                    _end(process)
                    raise StoppedError("stopped; the program was asked to leave and left")
        finally:
            if process.poll() is None:
                process.kill()
    if process.returncode != 0:
        tail = "\n    ".join(last)
        raise TrainerError(where, f"ended with {process.returncode}:\n    {tail}", "mend the program, then resume")


def _recorded(line: str, record: Callable[[StepMetrics], bool], last: deque[str]) -> bool:
    """Records a line of metrics, passes any other on; False when the one who watches wants no more."""
    metrics = metrics_of(line)
    if metrics is not None:
        return not record(metrics)
    sys.stdout.write(line)
    sys.stdout.flush()
    last.append(line.rstrip("\n"))
    return True


def _lines(process: subprocess.Popen[str], metrics: Path) -> Iterator[str | None]:
    """What the program prints and what it appends to its file of metrics; None when it does neither for a while."""
    printed: queue.Queue[str | None] = queue.Queue()
    assert process.stdout is not None
    output = process.stdout

    def pump() -> None:
        """Passes on what is printed."""
        with contextlib.suppress(ValueError):  # closed under its hands: whoever listened has left
            for line in output:
                printed.put(line)
        printed.put(None)

    thread = threading.Thread(target=pump, daemon=True)
    thread.start()
    place, open_ended = metrics.stat().st_size if metrics.is_file() else 0, True
    while open_ended:
        try:
            line = printed.get(timeout=LOOK_S)
            open_ended = line is not None
            yield line
        except queue.Empty:
            yield None
        place, found = _appended(metrics, place)
        yield from found
    thread.join()
    process.wait()
    yield from _appended(metrics, place)[1]


def _appended(path: Path, place: int) -> tuple[int, list[str]]:
    """The whole lines behind a place in a file, and where they end."""
    if not path.is_file():
        return place, []
    with path.open("rb") as file:
        file.seek(place)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return place + len(whole), whole.decode(errors="replace").splitlines(keepends=True)


def _end(process: subprocess.Popen[str]) -> None:
    """Asks the program to leave, and waits for its checkpoint."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
