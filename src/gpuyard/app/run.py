"""`gpuyard run`: run a pipeline from data to deployment, recording each stage in the ledger."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from gpuyard import __version__
from gpuyard.app.bus_bandwidth import check_bus
from gpuyard.app.promotion import NewScores, choose_alias
from gpuyard.app.serve import settings_from_spec
from gpuyard.app.stage_worker import (
    DataResult,
    EvaluateResult,
    RunFolder,
    SelectResult,
    load_result,
    make_run,
    open_run,
    training_task,
)
from gpuyard.app.stages import RunSpec, read_stages
from gpuyard.app.tracking import exports_of, save_tracking, tracking_of
from gpuyard.app.workspace import Workspace
from gpuyard.datasets.prepared import PreparedDataset, load_prepared
from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.document.field_types import Doc
from gpuyard.errors import (
    EXIT_EXTERNAL_ERROR,
    EXIT_INFEASIBLE,
    EXIT_WRONG_INPUT,
    ExternalError,
    Infeasible,
    InputError,
    choices_text,
)
from gpuyard.home import Home, remember_home, write_atomic
from gpuyard.jobs.engines import ENGINES, open_engine
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import Run
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Task, TaskStatus, cost_usd, new_id
from gpuyard.jobs.task_runner import TaskProgress, run_task
from gpuyard.jobs.tracking.export import finish_all
from gpuyard.learn.evaluate.prepared import TEST
from gpuyard.learn.evaluate.scorecard import Scorecard
from gpuyard.learn.spec import trainer_of
from gpuyard.measure.host import versions
from gpuyard.registry.bundle import Metric, read_bundle
from gpuyard.registry.names import CHAMPION
from gpuyard.registry.registry import Registry
from gpuyard.serving.deploy import deploy, is_ready
from gpuyard.serving.endpoints import Endpoint, Endpoints
from gpuyard.serving.spec import ServerSettings

FINE = ("done", "skipped")
TAIL = 8  # last lines of a failed stage's log
READY_S, LOOK_S = 60.0, 0.2  # for a server that is still starting
OnProgress = Callable[[TaskProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The version that a run registered, and the alias that points to it."""

    name: str
    version: int
    alias: str
    why: Annotated[str, Doc("why it is the champion, or why not")]
    metrics: tuple[Metric, ...]


def run_pipeline(
    workspace: Workspace,
    *,
    engine: str | None = None,
    until: str | None = None,
    track: Sequence[str] = (),
    on_progress: OnProgress = lambda _: None,
) -> Run:
    """Run the pipeline of a workload; return the run as recorded in the ledger."""
    run = begin_run(workspace, engine=engine, until=until or "", track=track)
    return continue_run(workspace.home, run, until=until, on_progress=on_progress)


def begin_run(
    workspace: Workspace,
    *,
    engine: str | None = None,
    until: str = "",
    track: Sequence[str] = (),
) -> Run:
    """Begin a run in the ledger and create its folder; `track` overrides the file's section."""
    workload, path = workspace.workload, workspace.path
    stages = read_stages(path)
    if not stages.names:
        raise InputError.one(
            str(path), "the pipeline has no stage", "add data, train, evaluate, select or deploy"
        )
    home = Home(path=workspace.home.path.resolve())  # stages run in separate folders
    name = engine or (workload.where.engine if stages.run.engine == EngineSpec() else None)
    spec = stages.run.engine
    if name is not None and name != spec.name:
        spec = _engine(name)
    remember_home(home)
    ledger = Ledger(home=home)
    run_id = ledger.new_id()
    # Before the ledger entry, so that it can resume.
    folder = make_run(home.runs / run_id, path, home, workload.name)
    save_tracking(folder, track)
    return ledger.begin(
        name=workload.name,
        workload=path.read_text(encoding="utf-8"),
        engine=spec,
        stages=stages.names,
        versions=(("gpuyard", __version__), *versions()),
        run_id=run_id,
        until=until,
    )


def _engine(name: str) -> EngineSpec:
    if name not in ENGINES:
        fix = f"use {choices_text(list(ENGINES))}"
        raise InputError.one("--engine", f'no engine named "{name}"', fix)
    return EngineSpec(name=name)


def continue_run(
    home: Home, run: Run, *, until: str | None = None, on_progress: OnProgress = lambda _: None
) -> Run:
    """Run the stages that are not done; the run fails with the first that does."""
    folder = open_run(Path(run.folder))
    exports = exports_of(home, folder, run, tracking_of(folder))
    for export in exports:
        export.start()
    try:
        return _run_stages(home, folder, run, until, on_progress)
    finally:
        finish_all(exports)


def _run_stages(
    home: Home, folder: RunFolder, run: Run, until: str | None, on_progress: OnProgress
) -> Run:
    ledger = Ledger(home=home)
    try:
        for stage in run.stages:
            over = stage.state in FINE
            ended = stage.state if over else _stage(ledger, folder, run, stage.name, on_progress)
            if ended not in FINE:
                return ledger.end(
                    run.id, "cancelled" if ended == "cancelled" else "failed", error=stage.name
                )
            if stage.name == until:
                break
    except (InputError, ExternalError) as error:
        ledger.end(run.id, "failed", error=str(error))
        raise
    return ledger.end(run.id, "done")  # up to the requested stage


def _stage(ledger: Ledger, folder: RunFolder, run: Run, name: str, on_progress: OnProgress) -> str:
    """Run a stage: in this process for registry and servers, through the engine otherwise."""
    here = {"register": _register, "deploy": _deploy}
    if name in here:
        ledger.start(run.id, name)
        try:
            result = here[name](folder, run)
        except (InputError, ExternalError) as error:
            ledger.finish(run.id, name, state="failed", error=str(error))
            raise
        if result is None:  # a command of the user's own that left no model
            ledger.finish(run.id, name, state="skipped")
            return "skipped"
        write_atomic(folder.result(name), dump_json(result))
        ledger.finish(run.id, name, state="done", result=str(folder.result(name)))
        on_progress(TaskProgress(stage=name, state="done"))
        return "done"
    return _by_engine(ledger, folder, run, name, on_progress)


def _by_engine(
    ledger: Ledger, folder: RunFolder, run: Run, name: str, on_progress: OnProgress
) -> str:
    """Run a stage through an engine; it is finished once its result exists."""
    engine, task = open_engine(run.engine), _task(folder, run, name)
    probe = folder.stages.run.probe
    if (
        name == "train"
        and probe is not None
        and task.processes > 1
        and not (folder.stage(name) / "checkpoints").exists()
    ):
        check_bus(
            engine, probe, folder.stage(name), nodes=task.nodes, processes=task.processes_per_node
        )
    metrics = (folder.stage(name) / "metrics.jsonl",)
    status = run_task(engine, task, ledger, run.id, name, metrics=metrics, on_progress=on_progress)
    spent = cost_usd(task, run.engine, status)
    if status.state == "done" and folder.result(name).exists():
        ledger.finish(run.id, name, state="done", result=str(folder.result(name)), cost_usd=spent)
        return "done"
    state: Literal["cancelled", "failed"] = "cancelled" if status.state == "cancelled" else "failed"
    record = ledger.get(run.id).stage(name)
    lines = list(engine.logs(record.handle, follow=False)) if record and record.handle else []
    error = _error(folder.infeasible(name), status, lines)
    ledger.finish(
        run.id, name, state=state, error=error, cost_usd=spent, exit_code=status.exit_code
    )
    return state


def _error(infeasible: Path, status: TaskStatus, lines: Sequence[str]) -> str:
    """Why a stage failed: the binding constraint, its error message, or its last log lines."""
    if status.exit_code == EXIT_INFEASIBLE and infeasible.exists():
        return str(load_json_file(infeasible, Infeasible))
    again = max(
        (number for number, line in enumerate(lines) if line.startswith("gpuyard: ")), default=-1
    )
    last = lines[again + 1 :]  # of the last attempt
    began = next((number for number, line in enumerate(last) if line.startswith("error: ")), None)
    if status.exit_code in (EXIT_WRONG_INPUT, EXIT_EXTERNAL_ERROR) and began is not None:
        return "\n".join(last[began:])
    reason = status.reason or (
        f"exit {status.exit_code}" if status.exit_code is not None else status.state
    )
    return "\n".join([reason, *lines[-TAIL:]])


def _task(folder: RunFolder, run: Run, name: str) -> Task:
    """The trainer on all processes, any other stage as one process."""
    spec: RunSpec = folder.stages.run
    shared = Task(
        id=new_id(f"{run.name}-{name}"),
        argv=(sys.executable, "-m", "gpuyard.app.stage_worker", str(folder.path), name),
        folder=str(folder.stage(name)),
        retries=spec.retries,
        time_limit_s=spec.time_limit_s,
    )
    folder.stage(name).mkdir(parents=True, exist_ok=True)
    if name != "train":
        return shared
    return replace(
        shared,
        argv=(sys.executable, "-m", "gpuyard.learn.worker", str(training_task(folder))),
        nodes=spec.nodes,
        processes_per_node=spec.processes,
        chips_per_process=spec.chips,
    )


def _register(folder: RunFolder, run: Run) -> Registered | None:
    """Register the chosen model as champion or challenger."""
    bundle, card, decider = _chosen(folder)
    if (
        not bundle.is_dir()
        and folder.stages.train is not None
        and trainer_of(folder.stages.train) == "command"
    ):
        return None
    metrics = (
        tuple(
            Metric(name=score.metric, value=score.value, low=score.low, high=score.high)
            for score in card.scores
        )
        if card
        else ()
    )
    registry, lineage = Registry(home=folder.home), read_bundle(bundle).lineage
    version = registry.register(
        folder.name,
        bundle,
        metrics=metrics,
        lineage=replace(lineage, run=run.id, evaluated=_evaluated(card)),
    )
    evidence = NewScores(card=card, metric=decider, data=_prepared(folder))
    alias, why = choose_alias(registry, version, evidence)
    registry.alias(folder.name, alias, version.version)
    return Registered(
        name=folder.name, version=version.version, alias=alias, why=why, metrics=version.metrics
    )


def _chosen(folder: RunFolder) -> tuple[Path, Scorecard | None, str]:
    """The bundle to register, its scorecard, and the deciding metric."""
    names = folder.stages.names
    if "select" in names:
        result = load_result(folder, "select", SelectResult)
        return Path(result.bundle), result.test, result.selection.metric
    card = None
    if "evaluate" in names:
        judged = load_result(folder, "evaluate", EvaluateResult)
        card = judged.test or judged.card
    return (
        folder.stage("train") / "bundle",
        card,
        card.scores[0].metric if card and card.scores else "",
    )


def _evaluated(card: Scorecard | None) -> str:
    """What the scores were measured on; equal texts of one data version mean equal rows."""
    if card is None:
        return ""
    return f"{card.method}, seed {card.seed}" if len(card.folds) > 1 else f"{TEST} split"


def _prepared(folder: RunFolder) -> PreparedDataset | None:
    if "data" not in folder.stages.names:
        return None
    return load_prepared(Path(load_result(folder, "data", DataResult).folder))


def _deploy(folder: RunFolder, _run: Run) -> Endpoint:
    """Start the service; one that is running swaps to the new version by itself."""
    spec = folder.stages.deploy
    assert spec is not None
    settings = settings_from_spec(spec, folder.home, f"{folder.name}@{CHAMPION}")
    running = _serving(folder.home, settings)
    if running is not None:
        return running
    try:
        return deploy(settings)
    except ExternalError:  # one that a killed gpuyard had started may have come up meanwhile
        running = _serving(folder.home, settings)
        if running is None:
            raise
        return running


def serve_again(run: Run) -> Endpoint:
    """Return the service of a run, starting it again if it is not running."""
    folder = open_run(Path(run.folder))
    endpoint = _deploy(folder, run)
    write_atomic(folder.result("deploy"), dump_json(endpoint))
    return endpoint


def _serving(home: Home, settings: ServerSettings) -> Endpoint | None:
    """The service of that name once ready; None without one, or if it serves other models."""
    until_s = time.monotonic() + READY_S
    while time.monotonic() < until_s:
        endpoint = next(
            (item for item in Endpoints(home=home).all() if item.name == settings.name), None
        )
        served = {name.partition("/")[0] for name in endpoint.models} if endpoint else set()
        if (
            endpoint is None
            or endpoint.state != "running"
            or not {item.name for item in settings.mounts} <= served
        ):
            return None
        if is_ready(endpoint):
            return endpoint
        time.sleep(LOOK_S)
    return None
