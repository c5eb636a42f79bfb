"""Runs: list them, show one, follow its log, stop it, go on with it."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.errors import GpuyardError, InputError
from gpuyard.home import Home
from gpuyard.jobs import Artefact, Ledger, Run, Series, Stage, artefacts, open_engine, series
from gpuyard.jobs.process import send

__all__ = ["Shown", "find_run", "list_runs", "run_logs", "show_run", "stop_run"]

STEP_S = 0.3
ASK_S = 20.0  # for the process that drives a run to see that it is to stop
STOP_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A run with everything that the ledger knows of it."""

    run: Run
    series: tuple[Series, ...]
    artefacts: tuple[Artefact, ...]


def _ledger(home: Home) -> Ledger:
    """The ledger of a state directory that is there; reading makes none."""
    if not home.ledger.exists():
        raise InputError.one(str(home.path), "there is no state directory", "name the one of the workload with --home")
    return Ledger(home=home)


def list_runs(home: Home) -> tuple[Run, ...]:
    """Every run, newest first; none where nothing has run yet."""
    return Ledger(home=home).runs()


def find_run(home: Home, run_id: str) -> Run:
    """The run of that id, of the only id that begins so, or the `last`."""
    return _ledger(home).get(run_id)


def show_run(home: Home, run_id: str) -> Shown:
    """One run in full."""
    ledger = _ledger(home)
    run = ledger.get(run_id)
    return Shown(run=run, series=series(ledger, run.id), artefacts=artefacts(ledger, run.id))


def run_logs(home: Home, run_id: str, follow: bool, stage: str = "") -> Iterator[str]:
    """The lines that the jobs of a run wrote, stage by stage; with `follow`, those to come too."""
    ledger = _ledger(home)
    run = ledger.get(run_id)
    if stage and not run.stage(stage):
        names = ", ".join(each.name for each in run.stages)
        raise InputError.one("--stage", f'run {run.id} has no stage "{stage}"', f"use one of {names}")
    told: set[str] = set()
    while True:
        run = ledger.get(run.id)
        fresh = [each for each in _with_jobs(run, stage) if each.handle and each.handle.id not in told]
        for each in fresh:
            assert each.handle
            told.add(each.handle.id)
            yield from (f"{each.name}: {line}" for line in _stage_lines(each, follow))
        if not fresh:
            if not follow or run.state != "running":
                return
            time.sleep(STEP_S)


def _with_jobs(run: Run, stage: str) -> tuple[Stage, ...]:
    """The stages that have a job."""
    return tuple(each for each in run.stages if each.handle and stage in ("", each.name))


def _stage_lines(stage: Stage, follow: bool) -> Iterator[str]:
    """The lines of a stage's job; an engine that is away says so in their place."""
    assert stage.handle
    try:
        yield from open_engine(stage.handle.engine).logs(stage.handle, follow and stage.state == "running")
    except GpuyardError as error:
        yield f"gpuyard: {str(error).splitlines()[0]}"


def stop_run(home: Home, run_id: str) -> Run:
    """The run, once its jobs are cancelled and the process that drives it has ended it."""
    ledger = _ledger(home)
    run = ledger.get(run_id)
    if run.state not in ("running", "interrupted"):
        raise InputError.one(f"run {run.id}", f"has ended: {run.state}", "see `gpuyard runs`")
    driver = ledger.ask_stop(run.id)
    for stage in run.stages:
        if stage.state == "running" and stage.handle:
            engine = open_engine(stage.handle.engine)
            engine.cancel(stage.handle)
    if driver and not _ended_within(ledger, run.id, ASK_S):
        with contextlib.suppress(PermissionError):
            send(driver, signal.SIGTERM)
        _ended_within(ledger, run.id, STOP_S)
    run = ledger.get(run.id)
    return ledger.end(run.id, "cancelled", "stopped") if run.state in ("running", "interrupted") else run


def _ended_within(ledger: Ledger, run_id: str, wait_s: float) -> bool:
    """Whether the run ends, or is left by its process, in that time."""
    deadline_s = time.monotonic() + wait_s
    while ledger.get(run_id).state == "running":
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(STEP_S)
    return True
