"""Commands that are killed with SIGKILL at random times until one of them finishes.

Idea: the same command (or `gpuyard resume last`) is started again and again; every start but the
last is killed with all of its processes after a random time. Invariants checked at the end: the
command finishes, SQLite's integrity check passes, nothing is lost or recorded twice, no process is
left, and the result equals that of a run that was never killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuyard.home import Home
from gpuyard.registry.registry import Registry

from ..serving.cases import bundle

FINISH_S = 300.0
PIPELINE = """\
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
  evaluate: {folds: 0, metrics: [log_loss, accuracy]}
"""
SEARCH = (
    PIPELINE
    + """\
  select:
    metric: accuracy
    trials: 3
    candidates: [{trees: {rounds: {from: 5, to: 20}, leaves: 4}}]
"""
)
PLANNED = """\
task: pretraining
name: planned
model: llama-3-8b
data: {tokens: 10B, sequence: 8192}
where: {provider: onprem, platform: slurm, inventory: {dgx-h100: 4}, switch: qfx5240-64od}
"""


TRAINING = PIPELINE.replace(
    "train: {seed: 0, trees: {rounds: 20, leaves: 4}}",
    "train: {seed: 0, checkpoint_every: 25, trees: {rounds: 400, leaves: 15, threads: 1}}",
)


ROUNDS_PER_KILL = 3  # some rounds end before their first kill
KILLS = 15  # per command; `python bench/reliability.py --only kills --tries 1000` for more


@dataclass(frozen=True, slots=True, kw_only=True)
class KillScenario:
    """A command, how it goes on after a kill, and what must hold at the end."""

    name: str
    workload: str
    first: Callable[[Path, Path], list[str]]
    again: Callable[[Path, Path], list[str]]
    result: Callable[[Path], object]
    span_s: float  # kills come within this time after the start
    prepare: Callable[[Path], None] = lambda _: None  # in the folder of a round


def _run(file: Path, home: Path) -> list[str]:
    return ["run", str(file), "--home", str(home)]


def _resume(file: Path, home: Path) -> list[str]:
    return ["resume", "last", "--home", str(home)] if _has_run(home) else _run(file, home)


def _has_run(home: Path) -> bool:
    return bool(_rows(home, "SELECT id FROM runs"))


def _rows(home: Path, query: str) -> list[tuple[object, ...]]:
    ledger = home / "ledger.db"
    if not ledger.exists():
        return []
    with sqlite3.connect(ledger) as connection:
        try:
            return list(connection.execute(query))
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise


def _run_result(home: Path) -> object:
    runs = _rows(home, "SELECT state FROM runs")
    assert runs == [("done",)], runs
    assert len(_rows(home, "SELECT * FROM model_versions")) == 1
    assert _rows(home, "SELECT last FROM model_numbers") == [(1,)]
    (model,) = home.glob("models/*/1/model.onnx")
    return hashlib.sha256(model.read_bytes()).hexdigest()


def _data(file: Path, home: Path) -> list[str]:
    return ["data", "run", str(file), "-o", str(home / "data")]


def _data_result(home: Path) -> object:
    (manifest,) = home.rglob("manifest.json")
    files = sorted(path for path in manifest.parent.rglob("*.parquet"))
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]


def _select(file: Path, home: Path) -> list[str]:
    return ["select", str(file), "--home", str(home)]


def _select_result(home: Path) -> object:
    paths = list(home.rglob("selection.db"))
    for path in paths:
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return len(paths)


def _up(file: Path, home: Path) -> list[str]:
    return ["up", str(file), "--home", str(home)]


def _up_result(home: Path) -> object:
    digests = {}
    for path in sorted(home.rglob("*.json")):
        if path.name in ("blueprint.json", "fabric.json"):
            digests[str(path.relative_to(home))] = hashlib.sha256(path.read_bytes()).hexdigest()
        json.loads(path.read_text(encoding="utf-8"))  # complete, whatever it is
    return digests


def _two_bundles(folder: Path) -> None:
    for number, bias in ((1, 0.0), (2, 1.0)):
        bundle(folder / f"bundle-{number}", bias=bias)


def _import(file: Path, home: Path) -> list[str]:
    folder = file.parent / ("bundle-2" if _is_registered(home) else "bundle-1")
    return ["models", "import", str(folder), "--name", "m", "--home", str(home)]


def _is_registered(home: Path) -> bool:
    return bool(_rows(home, "SELECT * FROM model_versions"))


def _import_result(home: Path) -> object:
    registry = Registry(home=Home(path=home))
    for folder in ("bundle-1", "bundle-2"):  # what is registered already is not registered again
        registry.register("m", home.parent / folder)
    versions = [registry.get(f"m/{row.version}") for row in registry.versions("m")]
    assert sorted(version.version for version in versions) == [1, 2]
    registry.collect()
    assert len(list(home.glob("models/m/*"))) == 2
    assert not list(home.glob("models/.*/*"))
    return sorted(version.digest for version in versions)


SCENARIOS = (
    KillScenario(
        name="run", workload=PIPELINE, first=_run, again=_resume, result=_run_result, span_s=9.0
    ),
    KillScenario(
        name="training", workload=TRAINING, first=_run, again=_resume, result=_run_result,
        span_s=12.0,
    ),
    KillScenario(
        name="models import", workload=PIPELINE, first=_import, again=_import,
        result=_import_result, span_s=2.5, prepare=_two_bundles,
    ),
    KillScenario(
        name="data run", workload=PIPELINE, first=_data, again=_data, result=_data_result, span_s=4.0
    ),
    KillScenario(
        name="select", workload=SEARCH, first=_select, again=_select, result=_select_result,
        span_s=8.0,
    ),
    KillScenario(
        name="up", workload=PLANNED, first=_up, again=_up, result=_up_result, span_s=5.0
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KillReport:
    """Result of one scenario."""

    name: str
    kills: int
    rounds: int
    failures: tuple[str, ...]
    seconds: float


def kill_scenario(scenario: KillScenario, kills: int, folder: Path, seed: int = 0) -> KillReport:
    """Kill the command of a scenario that many times; kills that came too late do not count."""
    rng = random.Random(f"{scenario.name} {seed}")
    begin_s, done, rounds, failures = time.perf_counter(), 0, 0, []
    expected = _round(scenario, 0, folder / "reference", rng)[1]
    while done < kills and rounds < ROUNDS_PER_KILL * kills:
        rounds += 1
        landed, result = _round(scenario, min(5, kills - done), folder / f"round-{rounds}", rng)
        done += landed
        if result != expected:
            failures.append(f"round {rounds}: {str(result)[:300]} instead of {str(expected)[:300]}")
    return KillReport(
        name=scenario.name,
        kills=done,
        rounds=rounds,
        failures=tuple(failures),
        seconds=time.perf_counter() - begin_s,
    )


def _round(
    scenario: KillScenario, kills: int, folder: Path, rng: random.Random
) -> tuple[int, object]:
    folder.mkdir(parents=True)
    file, home = folder / "workload.yaml", folder / "home"
    file.write_text(scenario.workload, encoding="utf-8")
    scenario.prepare(folder)
    landed, words = 0, scenario.first(file, home)
    for _ in range(kills):
        was_killed = _killed(words, rng.uniform(0.1, scenario.span_s), folder)
        words = scenario.again(file, home)
        if not was_killed:  # it ended before
            break
        landed += 1
    done = subprocess.run(
        [sys.executable, "-m", "gpuyard", *words],
        capture_output=True,
        text=True,
        timeout=FINISH_S,
        check=False,
    )
    already_done = "is done" in done.stderr  # the kill came after the last write
    if done.returncode and not already_done:
        return landed, f"exit {done.returncode}: {done.stderr[-400:]}"
    left = _processes(folder)
    if left:
        return landed, f"left running: {left}"
    if (home / "ledger.db").exists():
        with sqlite3.connect(home / "ledger.db") as connection:
            integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
        if integrity != "ok":
            return landed, f"ledger: {integrity}"
    try:
        return landed, scenario.result(home)
    except (AssertionError, OSError, ValueError) as error:
        return landed, f"{type(error).__name__}: {error}"


def _killed(words: list[str], after_s: float, folder: Path) -> bool:
    """Start a command and kill all of its processes; False if it ended before."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuyard", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        for pid in _processes(folder, within_s=0.0):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return True
    return False


def _processes(folder: Path, within_s: float = 10.0) -> list[int]:
    """Processes that name the folder; those that are ending get some time to do so."""
    until_s = time.monotonic() + within_s
    while True:
        pids = [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if str(folder).encode() in _command_line(path)
        ]
        if not pids or time.monotonic() >= until_s or within_s == 0:
            return pids
        time.sleep(0.1)


def _command_line(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
