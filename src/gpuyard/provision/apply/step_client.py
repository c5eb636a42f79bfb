"""Interface of the clients that create, find and delete the resources of a step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, TypeVar

from gpuyard.provision.apply.calls import ExistingResource

Step = TypeVar("Step", contravariant=True)


class ApiError(Exception):
    """The server rejected the call, and sending the same call again would not help."""

    def __init__(self, code: str, what: str, fix: str) -> None:
        super().__init__(f"{code}: {what}")
        self.code = code
        self.what = what
        self.fix = fix


class AlreadyExistsError(Exception):
    """A resource of that name already exists."""


class UnknownOutcomeError(Exception):
    """No response to a call without a request id: check the resource before sending it again."""


class Clock(Protocol):
    """Time and sleep, replaceable in tests."""

    def now_s(self) -> float:
        """Return the seconds since the epoch."""
        ...

    def sleep(self, span_s: float) -> None:
        """Wait for a number of seconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RealClock:
    """The clock of this host."""

    def now_s(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()

    def sleep(self, span_s: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(span_s)


class StepClient(Protocol[Step]):
    """Creates, finds and deletes the resources of one kind of step."""

    def missing_prerequisite(self, step: Step) -> str:
        """Return what this host lacks to run the step; empty if nothing."""
        ...

    def find(self, step: Step) -> ExistingResource | None: ...

    def wait_for_inflight_calls(self, step: Step) -> None:
        """Wait until no call sent earlier can still take effect."""
        ...

    def start(self, step: Step, request_id: str) -> str:
        """Send the call; return the server's operation, empty if the work is already done."""
        ...

    def finish(self, step: Step, operation: str) -> None:
        """Wait until an operation ends; raise ApiError if it failed."""
        ...

    def start_deletion(self, step: Step, existing: ExistingResource, request_id: str) -> str:
        """Send the deletion; return the server's operation."""
        ...
