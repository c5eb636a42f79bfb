"""Apply: create the resources of a rendered deployment, or resume an interrupted apply.

Each step goes through find, record intent, send, wait, verify, record. Because the intent
is in the journal before the call is sent, a process killed at any point resumes without creating
anything twice: a step with an open intent or operation is settled before anything is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc
from gpuyard.errors import ExternalError
from gpuyard.provision.apply.api_errors import BUSY, RESUME
from gpuyard.provision.apply.apply_run import ApplyRun
from gpuyard.provision.apply.calls import CallStep, ExistingResource
from gpuyard.provision.apply.destroy import DeletionResult, delete_step, roll_back
from gpuyard.provision.apply.step_client import AlreadyExistsError, ApiError, UnknownOutcomeError

SENDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Outcome of a step."""

    step: str
    what: str
    outcome: Literal["created", "already existed", "failed"]
    why: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """Outcome of the steps up to the first failure."""

    results: tuple[StepResult, ...]
    remaining: Annotated[tuple[str, ...], Doc("steps that this host cannot run")] = ()
    missing_prerequisite: Annotated[str, Doc("what they need")] = ""
    rollback: Annotated[
        tuple[DeletionResult, ...], Doc("deletions after a failure, if requested")
    ] = ()

    @property
    def failure(self) -> StepResult | None:
        return next((result for result in self.results if result.outcome == "failed"), None)


def apply(run: ApplyRun, *, rollback: bool = False) -> ApplyResult:
    """Create what is missing, in order, and stop at the first failure.

    With `rollback`, a failure deletes everything that this folder has created.
    """
    results: list[StepResult] = []
    for number, step in enumerate(run.steps, start=1):
        missing = run.client(step).missing_prerequisite(step)
        if missing:
            remaining = tuple(other.step for other in run.steps[number - 1 :])
            return ApplyResult(
                results=tuple(results), remaining=remaining, missing_prerequisite=missing
            )
        result = _apply_step(run, step)
        results.append(result)
        run.on_progress(f"{number}/{len(run.steps)} {step.what}: {result.outcome}")
        if result.outcome == "failed":
            deletions = roll_back(run) if rollback else ()
            return ApplyResult(results=tuple(results), rollback=deletions)
    return ApplyResult(results=tuple(results))


def _apply_step(run: ApplyRun, step: CallStep) -> StepResult:
    try:
        _settle_earlier_run(run, step)
        existing = run.find(step)
        if existing is not None and existing.is_partial and _can_replace(run, step, existing):
            delete_step(run, step)
            existing = None
        if existing is not None and _is_done(run, step, existing):
            return StepResult(step=step.step, what=step.what, outcome="already existed")
        if run.journal.state(step.step).phase == "made":
            run.record("lost", step, note="created earlier, but it no longer exists")
        _create(run, step)
    except ApiError as error:
        run.record("failed", step, note=str(error))
        return StepResult(
            step=step.step, what=step.what, outcome="failed", why=str(error), fix=error.fix
        )
    return StepResult(step=step.step, what=step.what, outcome="created")


def _settle_earlier_run(run: ApplyRun, step: CallStep) -> None:
    """Wait for the calls that an earlier run sent, or may have sent."""
    state = run.journal.state(step.step)
    if state.phase == "accepted":
        try:
            run.client(step).finish(step, state.operation)
        except ApiError as error:
            run.record("failed", step, note=str(error))  # this run tries again
    elif state.phase == "intent":
        run.client(step).wait_for_inflight_calls(step)
    elif state.phase == "removing":
        try:
            delete_step(run, step)
        except ApiError as error:
            if error.code not in BUSY:
                raise
            run.record("made", step, note="still exists: a resource that uses it was not deleted")


def _is_done(run: ApplyRun, step: CallStep, existing: ExistingResource) -> bool:
    """Whether the step is complete; ExternalError if the resource belongs to another plan."""
    phase = run.journal.state(step.step).phase
    if not run.owns(step, existing):
        labels = existing.labels
        owner = "no gpuyard plan"
        if labels is not None:
            owner = f"plan {labels.plan_hash}, which expires {labels.expires}"
        what = f"{existing.path} already exists and belongs to {owner}"
        fix = "destroy the other deployment first, or rename the workload"
        raise ExternalError(step.step, what, fix)
    if phase == "made":
        return True
    run.record("made", step, note="already existed" if phase == "untouched" else "")
    return True


def _can_replace(run: ApplyRun, step: CallStep, existing: ExistingResource) -> bool:
    """Whether a partial resource is ours and was never complete.

    A resource that broke after its creation is left for a person to look at.
    """
    return run.journal.state(step.step).phase != "made" and run.owns(step, existing)


def _create(run: ApplyRun, step: CallStep) -> None:
    client = run.client(step)
    request = run.creation_request_id(step)
    run.record("intent", step, request=request)
    # Send until it is certain that the server has the call.
    for _ in range(SENDS):
        try:
            operation = client.start(step, request)
            break
        except AlreadyExistsError:  # created by an earlier try of ours, or by someone else
            existing = run.find_until(step, exists=True)
        except UnknownOutcomeError:
            client.wait_for_inflight_calls(step)
            existing = run.find(step)
        if existing is not None and _is_done(run, step, existing):
            return
    else:
        raise ExternalError(step.step, f"unknown outcome after {SENDS} tries", RESUME)
    if operation:
        run.record("accepted", step, request=request, operation=operation)
    client.finish(step, operation)
    if run.find_until(step, exists=True) is None:
        raise ApiError("gone", f"{step.what} does not exist after its creation", RESUME)
    run.record("made", step)
