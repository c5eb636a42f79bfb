"""`gpuyard resume`: continue a run that ended early or whose process was killed."""

from __future__ import annotations

from pathlib import Path

from gpuyard.app.run import OnProgress, continue_run
from gpuyard.app.stage_worker import open_run
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import Run


def resume_run(home: Home, run: Run, on_progress: OnProgress = lambda _: None) -> Run:
    """Resume a run up to the stage that was requested; finished stages are not run again."""
    open_run(Path(run.folder))  # one without its folder is refused before it is taken
    taken = Ledger(home=home).take(run.id)
    return continue_run(home, taken, until=taken.until or None, on_progress=on_progress)
