"""Runs: list, show, follow the log, stop."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.errors import GpuyardError, InputError
from gpuyard.home import Home
from gpuyard.jobs.engines import open_engine
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import series
from gpuyard.jobs.process import send
from gpuyard.jobs.records import Run, Series, Stage

STEP_S = 0.3
ASK_S = 20.0  # for the process that drives a run to see that it is to stop
STOP_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """A run with everything the ledger records."""

    run: Run
    series: tuple[Series, ...]


def open_ledger(home: Home) -> Ledger:
    """The ledger of an existing state directory; reading creates none."""
    if not home.ledger.exists():
        raise InputError.one(
            str(home.path),
            "there is no state directory",
            "name the one of the workload with --home",
        )
    return Ledger(home=home)


def list_runs(home: Home) -> tuple[Run, ...]:
    """List every run, newest first."""
    return Ledger(home=home).runs()


def find_run(home: Home, run_id: str) -> Run:
    """Find a run by id, unique id prefix, or `last`."""
    return open_ledger(home).get(run_id)


def show_run(home: Home, run_id: str) -> RunDetail:
    """One run in full."""
    ledger = open_ledger(home)
    run = ledger.get(run_id)
    return RunDetail(run=run, series=series(ledger, run.id))


def run_logs(home: Home, run_id: str, follow: bool, stage: str = "") -> Iterator[str]:
    """Yield the log lines of a run, stage by stage; `follow` waits for more."""
    ledger = open_ledger(home)
    run = ledger.get(run_id)
    if stage and not run.stage(stage):
        names = ", ".join(other.name for other in run.stages)
        raise InputError.one(
            "--stage", f'run {run.id} has no stage "{stage}"', f"use one of {names}"
        )
    printed: set[str] = set()
    while True:
        run = ledger.get(run.id)
        fresh = [
            other
            for other in _with_jobs(run, stage)
            if other.handle and other.handle.id not in printed
        ]
        for other in fresh:
            assert other.handle
            printed.add(other.handle.id)
            yield from (f"{other.name}: {line}" for line in _stage_lines(other, follow))
        if not fresh:
            if not follow or run.state != "running":
                return
            time.sleep(STEP_S)


def _with_jobs(run: Run, stage: str) -> tuple[Stage, ...]:
    return tuple(item for item in run.stages if item.handle and stage in ("", item.name))


def _stage_lines(stage: Stage, follow: bool) -> Iterator[str]:
    assert stage.handle
    try:
        yield from open_engine(stage.handle.engine).logs(
            stage.handle, follow and stage.state == "running"
        )
    except GpuyardError as error:
        yield f"gpuyard: {str(error).splitlines()[0]}"


def stop_run(home: Home, run_id: str) -> Run:
    """Cancel the jobs of a run and wait until its driver has ended it."""
    ledger = open_ledger(home)
    run = ledger.get(run_id)
    if run.state not in ("running", "interrupted"):
        raise InputError.one(f"run {run.id}", f"has ended: {run.state}", "see `gpuyard runs`")
    driver = ledger.request_stop(run.id)
    for stage in run.stages:
        if stage.state == "running" and stage.handle:
            engine = open_engine(stage.handle.engine)
            engine.cancel(stage.handle)
    if driver and not _ended_within(ledger, run.id, ASK_S):
        with contextlib.suppress(PermissionError):
            send(driver, signal.SIGTERM)
        _ended_within(ledger, run.id, STOP_S)
    run = ledger.get(run.id)
    return (
        ledger.end(run.id, "cancelled", "stopped")
        if run.state in ("running", "interrupted")
        else run
    )


def _ended_within(ledger: Ledger, run_id: str, wait_s: float) -> bool:
    deadline_s = time.monotonic() + wait_s
    while ledger.get(run_id).state == "running":
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(STEP_S)
    return True
