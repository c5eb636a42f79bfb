"""The whole way of a workload: what each of its stages came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import Doc
from gpuyard.fabric import Fabric
from gpuyard.fabric.verify import Verification
from gpuyard.plan import Plan
from gpuyard.simulate.comparison import StepRun
from gpuyard.simulate.heat import Heat

__all__ = ["Outcome", "Planned", "State", "Way"]

State = Literal["done", "kept", "skipped", "planned", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a stage came to."""

    name: str
    state: State
    what: Annotated[str, Doc("in one line")]
    files: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What the stages came to, in their order."""

    name: str
    target: str
    stages: tuple[Outcome, ...]
    folder: str
    next: Annotated[str, Doc("what to do now")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the stages of planned machines found; what is not there is None."""

    plan: Plan | None = None
    fabric: Fabric | None = None
    findings: Verification | None = None
    step: StepRun | None = None
    heat: Heat | None = None
