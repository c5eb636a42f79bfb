"""What the stages of `gpuyard up` left behind, read for its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gpuyard.app.stage import Evaluated, Selected, load_result, open_run
from gpuyard.document import load_json
from gpuyard.errors import InputError
from gpuyard.fabric import Fabric, from_json
from gpuyard.fabric.verify import Verification
from gpuyard.home import Home
from gpuyard.jobs import Ledger, Run
from gpuyard.jobs.way import Outcome, Planned, Way
from gpuyard.learn.evaluate import Scorecard
from gpuyard.learn.select import Selection
from gpuyard.perf.local import Compared, Foreseen
from gpuyard.plan import Plan
from gpuyard.simulate.comparison import StepRun
from gpuyard.simulate.heat import Heat

__all__ = ["Kept", "compared_of", "found_values", "load_kept", "planned_of", "predicted_of", "results_of"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What an earlier start finished, for this workload and this gpuyard."""

    key: str
    target: str
    outcomes: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """compared.json."""

    rows: tuple[Compared, ...]


def load_kept(folder: Path) -> Way:
    """The way of a workload as far as it has come; empty where nothing can be read."""
    path = folder / "up.json"
    try:
        kept = load_json(path.read_text(encoding="utf-8"), Kept, str(path))
    except (OSError, InputError):
        return Way(name=folder.name, target="", stages=(), folder=str(folder))
    return Way(name=folder.name, target=kept.target, stages=kept.outcomes, folder=str(folder))


def compared_of(folder: Path) -> tuple[Compared, ...]:
    """Predicted against measured, where both are there."""
    path = folder / "compared.json"
    return load_json(path.read_text(encoding="utf-8"), _Rows, str(path)).rows if path.exists() else ()


def predicted_of(home: Home, run: Run) -> Foreseen | None:
    """What was predicted of a run's training before it began."""
    folder = home.path / "up" / run.name
    path, owner = folder / "foreseen.json", folder / "run"
    if not path.exists() or not owner.exists() or owner.read_text(encoding="utf-8") != run.id:
        return None
    return load_json(path.read_text(encoding="utf-8"), Foreseen, str(path))


def found_values(folder: Path, home: Home) -> tuple[tuple[Compared, ...], Scorecard | None, Selection | None]:
    """Predicted against measured, the scorecard and the selection; what is not there is left out."""
    compared, run_file = compared_of(folder), folder / "run"
    if not run_file.exists():
        return compared, None, None
    try:
        run = Ledger(home=home).get(run_file.read_text(encoding="utf-8"))
        return compared, *results_of(Path(run.folder))
    except InputError:
        return compared, None, None


def results_of(folder: Path) -> tuple[Scorecard | None, Selection | None]:
    """How good the model of a run is, and what was chosen; None as long as a stage has not come to it."""
    run = open_run(folder)
    card = load_result(run, "evaluate", Evaluated).card if run.result("evaluate").exists() else None
    chosen = load_result(run, "select", Selected).selection if run.result("select").exists() else None
    return card, chosen


def planned_of(folder: Path) -> Planned:
    """Plan, fabric, proof, simulated step and link heat, as far as the stages have come."""
    return Planned(
        plan=_loaded(folder / "plan.json", Plan),
        fabric=_fabric(folder / "fabric.json"),
        findings=_loaded(folder / "findings.json", Verification),
        step=_loaded(folder / "simulation.json", StepRun),
        heat=_loaded(folder / "collective.json", Heat),
    )


def _loaded(path: Path, record: type[T]) -> T | None:
    """A value that a stage kept; None where there is none, or where another version wrote it."""
    try:
        return load_json(path.read_text(encoding="utf-8"), record, str(path))
    except (InputError, OSError):
        return None


def _fabric(path: Path) -> Fabric | None:
    """The fabric that was designed."""
    try:
        return from_json(path.read_text(encoding="utf-8"), str(path))
    except (InputError, OSError):
        return None
