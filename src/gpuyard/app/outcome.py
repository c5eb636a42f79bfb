"""What every stage of a run came to, in a line each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuyard.app.run import Registered
from gpuyard.app.stage import Evaluated, Prepared, RunFolder, Selected, load_result, open_run
from gpuyard.jobs import Run
from gpuyard.learn import TrainResult
from gpuyard.learn.evaluate import Scorecard
from gpuyard.serving import Endpoint
from gpuyard.units import BYTES, DURATION, show

__all__ = ["outcomes"]


def _scores(card: Scorecard) -> str:
    """The scores with their intervals."""
    told = []
    for score in card.scores[:4]:
        interval = f" ({score.low:.3f} to {score.high:.3f})" if score.low is not None and score.high is not None else ""
        told.append(f"{score.metric} {score.value:.3f}{interval}")
    return ", ".join(told)


def _data(run: RunFolder) -> str:
    """Rows in, out and lost, features and splits."""
    found = load_result(run, "data", Prepared)
    lost = f", {found.dropped_count:,} dropped" if found.dropped_count else ""
    held = f", {found.quarantined_count:,} in quarantine" if found.quarantined_count else ""
    splits = ", ".join(f"{name} {rows:,}" for name, rows in found.splits)
    rows = f"{found.rows_in_count:,} rows in, {found.rows_out_count:,} out{lost}{held}"
    return f"{rows}; {len(found.features)} features; {splits}"


def _train(run: RunFolder) -> str:
    """Steps, step time, rate, memory and loss."""
    found = load_result(run, "train", TrainResult)
    loss = f", loss {found.loss:.4g}" if found.loss is not None else ""
    rate = f"{found.samples_per_s:,.0f} rows/s, " if found.samples_per_s else ""
    return (
        f"{found.trainer}: {found.steps} steps of {show(found.step_s, DURATION)}, "
        f"{rate}{show(found.memory_bytes, BYTES)}{loss}"
    )


def _evaluate(run: RunFolder) -> str:
    """Scores by folds, and on the test split."""
    found = load_result(run, "evaluate", Evaluated)
    test = f"; test split: {_scores(found.test)}" if found.test else ""
    return f"{found.card.method}: {_scores(found.card)}{test}"


def _select(run: RunFolder) -> str:
    """The winner, and how many were not it."""
    found = load_result(run, "select", Selected)
    chosen = found.selection
    score = f" {chosen.metric} {chosen.winner.score.value:.4f}" if chosen.winner.score else ""
    saved = f", {chosen.fits_saved_count} fits spared" if chosen.fits_saved_count else ""
    return f"{chosen.winner.label}:{score}; {len(chosen.rejected)} others rejected{saved}"


def _register(run: RunFolder) -> str:
    """The version and its alias."""
    found = load_result(run, "register", Registered)
    return f"{found.name}/{found.version} is the {found.alias}: {found.why}"


def _deploy(run: RunFolder) -> str:
    """Where it answers."""
    found = load_result(run, "deploy", Endpoint)
    return f"{found.url}/v2/models/{run.name}"


WORDS: dict[str, Callable[[RunFolder], str]] = {
    "data": _data, "train": _train, "evaluate": _evaluate, "select": _select, "register": _register, "deploy": _deploy,
}  # fmt: skip


def outcomes(run: Run) -> tuple[str, ...]:
    """A line for every stage of the run, empty for one that is not done."""
    folder = open_run(Path(run.folder))
    return tuple(WORDS[stage.name](folder) if stage.state == "done" else "" for stage in run.stages)
