"""Read the values saved by the stages of `gpuyard up`, for its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gpuyard.app.up_report import (
    PlanningResults,
    RunComparison,
    RunResults,
    StageOutcome,
    UpReport,
)
from gpuyard.catalog.load import Catalog
from gpuyard.document.encode import load_json_file
from gpuyard.document.read import read_text
from gpuyard.errors import GpuyardError, InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.saved import load_fabric
from gpuyard.fabric.verify.finding import Verification
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import Run
from gpuyard.perf.local.comparison import PredictedVsMeasured, TrainingPrediction
from gpuyard.plan.option import Plan
from gpuyard.simulate.comparison import StepRun
from gpuyard.simulate.link_heat import Heat

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStages:
    """Stages that an earlier start finished, for this workload and this version."""

    key: str
    target: str
    outcomes: tuple[StageOutcome, ...] = ()


def load_saved_stages(folder: Path) -> UpReport:
    """Outcomes of the stages so far; empty where none can be read."""
    path = folder / "up.json"
    try:
        saved = load_json_file(path, SavedStages)
    except GpuyardError:
        return UpReport(name=folder.name, target="", stages=(), folder=str(folder))
    return UpReport(
        name=folder.name, target=saved.target, stages=saved.outcomes, folder=str(folder)
    )


def compared_of(folder: Path) -> tuple[PredictedVsMeasured, ...]:
    """Predictions against measurements, where both exist."""
    comparison = _loaded(folder / "comparison.json", RunComparison)
    return comparison.rows if comparison is not None else ()


def predicted_of(home: Home, run: Run) -> TrainingPrediction | None:
    """The prediction of a run's training, made before it began."""
    folder = home.path / "up" / run.name
    path, owner = folder / "prediction.json", folder / "run"
    if not path.exists() or not owner.exists() or read_text(owner) != run.id:
        return None
    return load_json_file(path, TrainingPrediction)


def run_of_plan(folder: Path, home: Home) -> Run | None:
    """The run that the stages of a workload belong to; None without one."""
    file = folder / "run"
    if not file.exists():
        return None
    try:
        return Ledger(home=home).get(read_text(file))
    except InputError:
        return None


def results_of_plan(folder: Path, home: Home) -> RunResults:
    """The results of a workload's run, as far as they exist."""
    run = run_of_plan(folder, home)
    try:
        return RunResults() if run is None else results_of(Path(run.folder))
    except InputError:
        return RunResults()


def results_of(folder: Path) -> RunResults:
    """The results of a run, as far as they exist."""
    from gpuyard.app.stage_worker import EvaluateResult, SelectResult, load_result, open_run

    run = open_run(folder)
    card, test, selection = None, None, None
    if run.result("evaluate").exists():
        evaluated = load_result(run, "evaluate", EvaluateResult)
        card, test = evaluated.card, evaluated.test
    if run.result("select").exists():
        selected = load_result(run, "select", SelectResult)
        selection = selected.selection
        test = selected.test  # the winner of the selection is registered, not the trained model
    return RunResults(champion=test, trained=card, selection=selection)


def planned_of(folder: Path) -> PlanningResults:
    """Plan, fabric, findings, simulated step and link load, as far as they exist."""
    return PlanningResults(
        plan=_loaded(folder / "plan.json", Plan),
        fabric=_fabric(folder / "fabric.json"),
        findings=_loaded(folder / "findings.json", Verification),
        step=_loaded(folder / "simulation.json", StepRun),
        heat=_loaded(folder / "collective.json", Heat),
        catalog=_loaded(folder / "catalog.json", Catalog),
    )


def _loaded(path: Path, record: type[T]) -> T | None:
    """A saved value; None without one, or when another version wrote it."""
    try:
        return load_json_file(path, record)
    except GpuyardError:
        return None


def _fabric(path: Path) -> Fabric | None:
    try:
        return load_fabric(path)
    except GpuyardError:
        return None
