"""Stages of `gpuyard up` on this machine: benchmark, data, train, select, deploy, compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpuyard.app.measure import PROFILE, measure_machine, read_profile, save_profile, trainers_here
from gpuyard.app.predict import compare_training, predict_serving, predict_training
from gpuyard.app.run import begin_run, continue_run, serve_again
from gpuyard.app.serving_cost import request_cost_s
from gpuyard.app.stage_summaries import outcomes
from gpuyard.app.stage_worker import DataResult, RunFolder, SelectResult, load_result, open_run
from gpuyard.app.stages import Stages, read_stages
from gpuyard.app.up_context import UpContext, UpStage
from gpuyard.app.up_report import RunComparison, StageOutcome
from gpuyard.datasets.prepared import load_prepared
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_WRONG_INPUT, ExternalError, InputError
from gpuyard.home import write_atomic
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import Run
from gpuyard.jobs.task_runner import TaskProgress
from gpuyard.learn.spec import trainer_of
from gpuyard.learn.task import TrainResult
from gpuyard.perf.local.comparison import PredictedVsMeasured, TrainingPrediction
from gpuyard.serving.deploy import is_ready
from gpuyard.serving.endpoints import Endpoint
from gpuyard.units import BYTES, DURATION, show

QUICK_S = 10.0  # a quick measurement of rates, and of each trainer, on two cores


def _stages(context: UpContext) -> Stages:
    return read_stages(context.path)


def _run_of(context: UpContext) -> Run | None:
    """The run that the stages belong to; None before it begins or when its folder is gone."""
    path = context.file("run")
    if not path.exists():
        return None
    try:
        run = Ledger(home=context.home).get(path.read_text(encoding="utf-8"))
        open_run(Path(run.folder))
    except InputError:
        return None
    return run


def _folder_of(run: Run) -> RunFolder:
    return open_run(Path(run.folder))


def _check(context: UpContext) -> StageOutcome:
    names = ", ".join(_stages(context).names)
    return StageOutcome(name="check", state="done", what=f"valid; stages: {names}")


def _measure(context: UpContext) -> StageOutcome:
    home, stages = context.home, _stages(context)
    is_measured = (home.path / PROFILE).exists()
    needed = {trainer_of(stages.train)} if stages.train else set()
    known = {fit.trainer for fit in read_profile(home).fits} if is_measured else set()
    missing = needed & set(trainers_here()) - known
    if is_measured and not missing:
        profile = read_profile(home)
    else:
        trainers = tuple(sorted(known | missing))
        context.on_status(f"about {QUICK_S * (1 + len(trainers)):.0f} s, once per machine")

        def on_progress(text: str, done: int = 0, total: int = 0, /) -> None:
            context.on_status(f"{text}, {done} of {total}" if total else text)

        profile = measure_machine(
            home.path,
            trainers,
            serving=stages.deploy is not None,
            quick=True,
            on_progress=on_progress,
        )
        save_profile(profile, home)
    best = profile.rate("product")
    rate = f", {best.value / 1e9:,.0f} GFLOP/s" if best else ""
    memory = show(profile.memory_bytes, BYTES)
    what = f"{profile.cores_count} cores of {profile.processor}, {memory}{rate}"
    return StageOutcome(name="measure", state="done", what=what)


def _pipeline_stage(name: str) -> Callable[[UpContext], StageOutcome]:
    """A stage of the pipeline, run through the ledger up to and including this one."""

    def run_stage(context: UpContext) -> StageOutcome:
        if name not in _stages(context).names:
            what = "not in the pipeline"
            return StageOutcome(name=name, state="skipped", what=what)
        run = _run_of(context)
        if run is None or _is_outdated(context, run):
            run = begin_run(context.workspace, engine=context.engine)
            write_atomic(context.file("run"), run.id)
        elif run.state != "done" or run.resumable:  # raises where another process drives it
            run = Ledger(home=context.home).take(run.id)
        if run.state != "done":
            run = continue_run(
                context.home,
                run,
                until=name,
                on_progress=lambda progress: context.on_status(_progress_text(progress)),
            )
        return _outcome(context, run, name)

    return run_stage


def _progress_text(progress: TaskProgress) -> str:
    """What a stage of the run is doing."""
    parts: list[str] = [progress.state]
    if progress.step is not None:
        parts.append(f"step {progress.step}" + (f" of {progress.steps}" if progress.steps else ""))
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4g}")
    if progress.left_s is not None:
        parts.append(f"{show(progress.left_s, DURATION)} left")
    return ", ".join(parts)


def _is_outdated(context: UpContext, run: Run) -> bool:
    changed = run.workload != context.path.read_text(encoding="utf-8")
    return changed or context.engine not in (None, run.engine.name)


def _outcome(context: UpContext, run: Run, name: str) -> StageOutcome:
    stage = run.stage(name)
    assert stage is not None
    if stage.state == "skipped":
        return StageOutcome(name=name, state="skipped", what="the command left no model")
    if stage.exit_code == EXIT_INFEASIBLE:
        return StageOutcome(name=name, state="stopped", what=stage.error)
    if stage.state != "done":
        what = stage.error or "the stage failed"
        fix = f"fix the cause, then run gpuyard up {context.path}"
        if stage.exit_code == EXIT_WRONG_INPUT:
            raise InputError.one(name, what, fix)
        raise ExternalError(name, what, fix)
    if name == "deploy":
        serve_again(run)
    index = [item.name for item in run.stages].index(name)
    return StageOutcome(name=name, state="done", what=outcomes(run)[index])


def _has_run(context: UpContext) -> bool:
    return _run_of(context) is not None


def _serves(context: UpContext) -> bool:
    """Whether the deployed service still responds."""
    run = _run_of(context)
    if run is None or (stage := run.stage("deploy")) is None or stage.state != "done":
        return run is not None
    return is_ready(load_result(_folder_of(run), "deploy", Endpoint))


def _predict(context: UpContext) -> StageOutcome:
    stages, run = _stages(context), _run_of(context)
    if stages.train is None or stages.data is None or run is None:
        return StageOutcome(name="predict", state="skipped", what="no training to predict")
    data = Path(load_result(_folder_of(run), "data", DataResult).folder)
    prediction = predict_training(stages.train, data, read_profile(context.home))
    if prediction is None:
        what = f"{trainer_of(stages.train)} is not modelled"
        return StageOutcome(name="predict", state="skipped", what=what)
    context.values.save("prediction.json", prediction)
    step, memory = show(prediction.step_s, DURATION), show(prediction.memory_bytes, BYTES)
    what = f"{prediction.steps} steps of {step}, {memory}, ±{prediction.error_ratio:.0%}"
    return StageOutcome(name="predict", state="done", what=what, files=("prediction.json",))


def _compare(context: UpContext) -> StageOutcome:
    prediction = context.values.load("prediction.json", TrainingPrediction)
    run = _run_of(context)
    if prediction is None or run is None:
        return StageOutcome(name="compare", state="skipped", what="nothing was predicted")
    result = load_result(_folder_of(run), "train", TrainResult)
    rows = (*compare_training(prediction, result), *_compare_serving(context, run))
    context.values.save("comparison.json", RunComparison(rows=rows))
    errors = ", ".join(f"{row.name} {row.error_ratio:+.0%}" for row in rows)
    what = f"predicted against measured: {errors}"
    return StageOutcome(name="compare", state="done", what=what, files=("comparison.json",))


def _compare_serving(context: UpContext, run: Run) -> Sequence[PredictedVsMeasured]:
    """Requests per core-second, predicted and measured on the deployed service."""
    folder, stages = _folder_of(run), _stages(context)
    if stages.deploy is None or not folder.result("deploy").exists():
        return ()
    chosen = stages.train
    if stages.select:
        chosen = load_result(folder, "select", SelectResult).selection.train
    assert chosen is not None
    manifest = load_prepared(Path(load_result(folder, "data", DataResult).folder)).manifest
    features, classes = len(manifest.features), len(manifest.classes)
    cost_s = predict_serving(chosen, features, classes, read_profile(context.home))
    endpoint = load_result(folder, "deploy", Endpoint)
    if cost_s is None or endpoint.tls_cert or stages.deploy.access.api_keys:
        return ()  # the probe sends plain requests without a key
    if not is_ready(endpoint):
        return ()
    measured_s = request_cost_s(endpoint, context.workload.name, features)
    row = PredictedVsMeasured(
        name="requests per core-second", unit="/s", predicted=1 / cost_s, measured=1 / measured_s
    )
    return (row,)


LOCAL: tuple[UpStage, ...] = (
    UpStage(name="check", does="validate the workload and its pipeline", run=_check),
    UpStage(name="measure", does="benchmark this machine, once", run=_measure),
    UpStage(
        name="data",
        does="read, clean, split and shard the data",
        run=_pipeline_stage("data"),
        holds=_has_run,
    ),
    UpStage(
        name="predict",
        does="predict training time and memory",
        run=_predict,
        makes=("prediction.json",),
    ),
    *(
        UpStage(name=name, does=f"run the {name} stage", run=_pipeline_stage(name), holds=_has_run)
        for name in ("train", "evaluate", "select", "register")
    ),
    UpStage(name="deploy", does="start the service", run=_pipeline_stage("deploy"), holds=_serves),
    UpStage(
        name="compare",
        does="compare predictions with measurements",
        run=_compare,
        makes=("comparison.json",),
    ),
)
