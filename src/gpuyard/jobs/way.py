"""The whole way of a workload: what each of its stages came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import Doc

__all__ = ["Outcome", "State", "Way"]

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
