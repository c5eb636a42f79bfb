"""Result of `gpuyard up`: the outcome of each stage and the values they saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.load import Catalog
from gpuyard.document.field_types import Doc
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.verify.finding import Verification
from gpuyard.learn.evaluate.scorecard import Scorecard
from gpuyard.learn.select.selection import Selection
from gpuyard.perf.local.comparison import PredictedVsMeasured
from gpuyard.plan.option import Plan
from gpuyard.simulate.comparison import StepRun
from gpuyard.simulate.link_heat import Heat

State = Literal["done", "cached", "skipped", "planned", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """Outcome of a stage."""

    name: str
    state: State
    what: Annotated[str, Doc("in one line")]
    files: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpReport:
    """Outcomes of the stages, in order."""

    name: str
    target: str
    stages: tuple[StageOutcome, ...]
    folder: str
    next: Annotated[str, Doc("the command to run next")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningResults:
    """Values saved by the planning stages; None where a stage saved none."""

    plan: Plan | None = None
    fabric: Fabric | None = None
    findings: Verification | None = None
    step: StepRun | None = None
    heat: Heat | None = None
    catalog: Annotated[Catalog | None, Doc("rows that the fabric was designed with")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResults:
    """Scores of a run; None before the stage is done."""

    champion: Annotated[Scorecard | None, Doc("the model to register, on the test split")] = None
    trained: Annotated[Scorecard | None, Doc("the model of the train stage")] = None
    selection: Selection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Predictions of a run against its measurements."""

    rows: tuple[PredictedVsMeasured, ...]
