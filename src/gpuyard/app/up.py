"""`gpuyard up`: run a workload from check to report; a second start resumes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuyard import __version__
from gpuyard.app.up_context import StageStatus, UpContext, UpStage
from gpuyard.app.up_planning import CLOUD
from gpuyard.app.up_report import StageOutcome, UpReport
from gpuyard.app.up_results import SavedStages
from gpuyard.app.workspace import Workspace
from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.errors import InputError, choices_text
from gpuyard.home import remember_home, write_atomic

UpProgress = Callable[[str, str], None]


def names_of(local: bool) -> tuple[str, ...]:
    """Stage names of a target, in order."""
    return tuple(stage.name for stage in _stages(local))


def _stages(local: bool) -> tuple[UpStage, ...]:
    if not local:
        return CLOUD
    from gpuyard.app.up_local import LOCAL  # needs the packages of gpuyard[run]

    return LOCAL


def up(
    workspace: Workspace,
    *,
    until: str | None = None,
    dry_run: bool = False,
    engine: str | None = None,
    on_progress: UpProgress = lambda _stage, _message: None,
    on_status: StageStatus = lambda _text: None,
) -> UpReport:
    """Run every stage of a workload; stages that are done and unchanged are not run again."""
    local = workspace.workload.where.provider == "local"
    stages = _stages(local)
    if until is not None and until not in names_of(local):
        raise InputError.one(
            "--until",
            f'no stage "{until}" for this target',
            f"use {choices_text(names_of(local), 20)}",
        )
    context = UpContext.of(workspace, engine, on_status)
    report = UpReport(
        name=workspace.workload.name,
        target=_target(local),
        stages=(),
        folder=str(context.folder),
    )
    if dry_run:
        planned = (
            StageOutcome(name=stage.name, state="planned", what=stage.does) for stage in stages
        )
        return replace(report, stages=tuple(planned))
    remember_home(context.home)
    write_atomic(context.folder / "workload.yaml", workspace.path.read_bytes())
    saved = _saved_stages(context.folder, _key(workspace.path, engine), _target(local))
    outcomes: list[StageOutcome] = []
    for number, stage in enumerate(stages):
        earlier = saved.outcomes[number] if number < len(saved.outcomes) else None
        if earlier is not None and stage.is_current(context, earlier):
            state = "cached" if earlier.state == "done" else earlier.state
            outcome = replace(earlier, state=state)
            on_progress(stage.name, "")
        else:
            # Later stages were computed from what is now computed again: drop their results.
            saved = replace(saved, outcomes=saved.outcomes[:number])
            for later in stages[number:]:
                later.clear(context)
            on_progress(stage.name, "")
            started_s = time.monotonic()
            outcome = replace(stage.run(context), seconds=time.monotonic() - started_s)
            saved = replace(saved, outcomes=(*saved.outcomes, outcome))
            write_atomic(context.folder / "up.json", dump_json(saved))
        on_progress(stage.name, outcome.what)
        outcomes.append(outcome)
        if outcome.state == "stopped" or stage.name == until:
            break
    return replace(report, stages=tuple(outcomes), next=context.advice(outcomes))


def _target(local: bool) -> str:
    return "this machine" if local else "planned machines"


def _key(path: Path, engine: str | None) -> str:
    """Changes with the workload, the engine or the gpuyard version."""
    return hashlib.sha256(path.read_bytes() + f"{engine}{__version__}".encode()).hexdigest()


def _saved_stages(folder: Path, key: str, target: str) -> SavedStages:
    """Stages finished by an earlier start; none when the workload has changed since."""
    path = folder / "up.json"
    if not path.exists():
        return SavedStages(key=key, target=target)
    try:
        saved = load_json_file(path, SavedStages)
    except InputError:
        return SavedStages(key=key, target=target)  # written by another version
    return saved if saved.key == key else SavedStages(key=key, target=target)
