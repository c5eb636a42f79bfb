"""What does the work of a step: finds what stands, starts making or removing it, and waits until that has ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, TypeVar

from gpuyard.provision.apply.calls import Found

__all__ = ["Clock", "FailedError", "Hand", "RealClock", "TakenError", "UncertainError"]

Step = TypeVar("Step", contravariant=True)


class FailedError(Exception):
    """The server said no, and asking again with the same words would not help."""

    def __init__(self, code: str, what: str, fix: str) -> None:
        super().__init__(f"{code}: {what}")
        self.code, self.what, self.fix = code, what, fix


class TakenError(Exception):
    """Something of that name stands already."""


class UncertainError(Exception):
    """No answer came to a call that carries no request id: look before it is sent again."""


class Clock(Protocol):
    """The time, and waiting."""

    def now_s(self) -> float:
        """Seconds of the epoch."""
        ...

    def sleep(self, span_s: float) -> None:
        """Waits."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RealClock:
    """The clock of this machine."""

    def now_s(self) -> float:
        """Seconds of the epoch."""
        return time.time()

    def sleep(self, span_s: float) -> None:
        """Waits."""
        time.sleep(span_s)


class Hand(Protocol[Step]):
    """Works on one kind of step."""

    def gap(self, step: Step) -> str:
        """What is missing on this machine before the step can be worked on; empty where nothing is."""
        ...

    def find(self, step: Step) -> Found | None:
        """What stands now; None where nothing does."""
        ...

    def settle(self, step: Step) -> None:
        """Waits until no call that was sent before can still take effect."""
        ...

    def start(self, step: Step, request_id: str) -> str:
        """Sends the call; gives what the server calls the work, empty where it is done already."""
        ...

    def finish(self, step: Step, operation: str) -> None:
        """Waits until the work has ended; FailedError where it failed."""
        ...

    def start_removal(self, step: Step, found: Found, request_id: str) -> str:
        """Sends the deletion; gives what the server calls the work."""
        ...
