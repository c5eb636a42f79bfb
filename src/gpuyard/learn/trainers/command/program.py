"""Run the user's program as a process: environment, lines of metrics, and exit."""

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

from gpuyard.errors import ExternalError
from gpuyard.learn.metrics_log import NAMES, StepMetrics
from gpuyard.learn.ranks import Ranks
from gpuyard.learn.trainer import StoppedError, TrainerError
from gpuyard.learn.trainers.command.command_settings import CommandSpec

METRICS = "GPUYARD_METRICS"
POLL_S = 0.2
STOP_TIMEOUT_S = 60.0  # for the program's own checkpoint after SIGTERM
TAIL_LINES = 20  # of its output, for the error message
# The program is killed with the worker (prctl(2), PR_SET_PDEATHSIG, SIGKILL), so that nothing is
# left running. It is a separate step before the program because no function may run between fork
# and exec in a process with threads, which frameworks have.
DIES_WITH_WORKER = """\
import ctypes, os, sys
sys.platform == "linux" and ctypes.CDLL(None).prctl(1, 9)
os.execvp(sys.argv[1], sys.argv[1:])
"""
LAUNCH = (sys.executable, "-c", DIES_WITH_WORKER)


def environment(
    spec: CommandSpec, ranks: Ranks, *, data: str, folder: Path, seed: int
) -> dict[str, str]:
    """Return the program's environment."""
    return {
        **os.environ,
        "RANK": str(ranks.rank),
        "WORLD_SIZE": str(ranks.world),
        "LOCAL_RANK": str(ranks.local_rank),
        "LOCAL_WORLD_SIZE": str(ranks.local_world),
        "NODE_RANK": str(ranks.node_rank),
        "MASTER_ADDR": ranks.address,
        "MASTER_PORT": str(ranks.port),
        # torchrun: a restarted group must not see the addresses of the dead one.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "DATA_DIR": data,
        "CHECKPOINT_DIR": str(folder / "checkpoints"),
        "GPUYARD_BUNDLE": str(folder / "exported"),
        METRICS: str(folder / f"command-{ranks.rank}.jsonl"),
        "GPUYARD_SEED": str(seed),
        **{variable.name: variable.value for variable in spec.env},
    }


def metrics_of(line: str) -> StepMetrics | None:
    """Parse a line of metrics: a JSON object with an integer `step`; None for any other line."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    if not isinstance(parsed, dict) or type(parsed.get("step")) is not int:
        return None
    numbers = {
        str(name): float(value)
        for name, value in parsed.items()
        if type(value) in (int, float) and name != "step" and math.isfinite(value)
    }
    known: dict[str, typing.Any] = {name: numbers.pop(name) for name in NAMES if name in numbers}
    if "steps" in known:
        known["steps"] = int(known["steps"])
    return StepMetrics(step=parsed["step"], others=tuple(sorted(numbers.items())), **known)


def run_program(
    spec: CommandSpec,
    env: dict[str, str],
    record: Callable[[StepMetrics], bool],
    stop: Callable[[], bool],
) -> None:
    """Run the program to its end; raise StoppedError on request, TrainerError if it fails."""
    where = f"train: command: {spec.run[0] if spec.run else ''}"
    if not spec.run or shutil.which(spec.run[0], path=env.get("PATH")) is None:
        raise ExternalError(
            where, "no such program", "use a program that is installed on this host"
        )
    process = subprocess.Popen(
        (*LAUNCH, *spec.run),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    stopping = False
    with process:
        try:
            for line in _lines(process, Path(env[METRICS])):
                if line is not None and not _handle_line(line, record, tail):
                    stopping = True
                if (stopping or stop()) and process.poll() is None:
                    _terminate(process)
                    raise StoppedError("stopped; the program has exited")
        finally:
            if process.poll() is None:
                process.kill()
    if process.returncode != 0:
        output = "\n    ".join(tail)
        what = f"exited with {process.returncode}:\n    {output}"
        raise TrainerError(where, what, "fix the program, then resume")


def _handle_line(line: str, record: Callable[[StepMetrics], bool], tail: deque[str]) -> bool:
    # Records metrics and prints other output; returns False when `watch` ends the training.
    metrics = metrics_of(line)
    if metrics is not None:
        return not record(metrics)
    sys.stdout.write(line)
    sys.stdout.flush()
    tail.append(line.rstrip("\n"))
    return True


def _lines(process: subprocess.Popen[str], metrics: Path) -> Iterator[str | None]:
    # Lines of its output and of its metrics file; None when there is neither for a while.
    printed: queue.Queue[str | None] = queue.Queue()
    assert process.stdout is not None
    output = process.stdout

    def pump() -> None:
        with contextlib.suppress(ValueError):  # the output was closed while it was read
            for line in output:
                printed.put(line)
        printed.put(None)

    thread = threading.Thread(target=pump, daemon=True)
    thread.start()
    offset = metrics.stat().st_size if metrics.is_file() else 0
    is_open = True
    while is_open:
        try:
            line = printed.get(timeout=POLL_S)
            is_open = line is not None
            yield line
        except queue.Empty:
            yield None
        offset, lines = _appended(metrics, offset)
        yield from lines
    thread.join()
    process.wait()
    yield from _appended(metrics, offset)[1]


def _appended(path: Path, offset: int) -> tuple[int, list[str]]:
    # The complete lines after an offset, and the offset after them.
    if not path.is_file():
        return offset, []
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    complete = data[: data.rfind(b"\n") + 1]
    return offset + len(complete), complete.decode(errors="replace").splitlines(keepends=True)


def _terminate(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
