"""One-line summaries of the stages of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuyard.app.run import Registered
from gpuyard.app.stage_worker import (
    DataResult,
    EvaluateResult,
    RunFolder,
    SelectResult,
    load_result,
    open_run,
)
from gpuyard.jobs.records import Run
from gpuyard.learn.evaluate.scorecard import Scorecard
from gpuyard.learn.task import TrainResult
from gpuyard.serving.endpoints import Endpoint
from gpuyard.units import BYTES, DURATION, show


def _scores(card: Scorecard) -> str:
    texts = []
    for score in card.scores[:4]:
        interval = (
            f" ({score.low:.3f} to {score.high:.3f})"
            if score.low is not None and score.high is not None
            else ""
        )
        texts.append(f"{score.metric} {score.value:.3f}{interval}")
    return ", ".join(texts)


def _data(run: RunFolder) -> str:
    result = load_result(run, "data", DataResult)
    lost = f", {result.dropped_count:,} dropped" if result.dropped_count else ""
    held = f", {result.quarantined_count:,} quarantined" if result.quarantined_count else ""
    splits = ", ".join(f"{name} {rows:,}" for name, rows in result.splits)
    rows = f"{result.rows_in_count:,} rows in, {result.rows_out_count:,} out{lost}{held}"
    return f"{rows}; {len(result.features)} features; {splits}"


def _train(run: RunFolder) -> str:
    result = load_result(run, "train", TrainResult)
    loss = f", loss {result.loss:.4g}" if result.loss is not None else ""
    rate = f"{result.samples_per_s:,.0f} rows/s, " if result.samples_per_s else ""
    step_time = f" of {show(result.step_s, DURATION)}" if result.step_s else ""
    return (
        f"{result.trainer}: {result.steps} steps{step_time}, "
        f"{rate}{show(result.memory_bytes, BYTES)}{loss}"
    )


def _evaluate(run: RunFolder) -> str:
    result = load_result(run, "evaluate", EvaluateResult)
    test = f"; test split: {_scores(result.test)}" if result.test else ""
    return f"{result.card.method}: {_scores(result.card)}{test}"


def _select(run: RunFolder) -> str:
    result = load_result(run, "select", SelectResult)
    chosen = result.selection
    score = f" {chosen.metric} {chosen.winner.score.value:.4f}" if chosen.winner.score else ""
    saved = f", {chosen.fits_saved_count} fits pruned" if chosen.fits_saved_count else ""
    return f"{chosen.winner.label}:{score}; {len(chosen.rejected)} others rejected{saved}"


def _register(run: RunFolder) -> str:
    result = load_result(run, "register", Registered)
    return f"{result.name}/{result.version} is the {result.alias}: {result.why}"


def _deploy(run: RunFolder) -> str:
    endpoint = load_result(run, "deploy", Endpoint)
    return f"{endpoint.url}/v2/models/{run.name}"


SUMMARIES: dict[str, Callable[[RunFolder], str]] = {
    "data": _data,
    "train": _train,
    "evaluate": _evaluate,
    "select": _select,
    "register": _register,
    "deploy": _deploy,
}


def outcomes(run: Run) -> tuple[str, ...]:
    """A line per stage of the run, empty for one that is not done."""
    folder = open_run(Path(run.folder))
    return tuple(
        SUMMARIES[stage.name](folder) if stage.state == "done" else "" for stage in run.stages
    )
