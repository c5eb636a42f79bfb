"""Destroy and rollback: delete what a plan created, in reverse order, and verify each deletion.

A resource is deleted only if the journal records it and, read from the server just before, it
carries the labels of the plan.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal, TypeGuard

from gpuyard.errors import ExternalError
from gpuyard.provision.apply.api_errors import RESUME
from gpuyard.provision.apply.apply_run import ApplyRun
from gpuyard.provision.apply.calls import ApiCall, CallStep, KubernetesObject
from gpuyard.provision.apply.step_client import ApiError

DeletionOutcome = Literal["deleted", "did not exist", "retained", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionResult:
    """Outcome of a deletion."""

    step: str
    what: str
    outcome: DeletionOutcome
    why: str = ""
    fix: str = ""


def destroy(run: ApplyRun) -> tuple[DeletionResult, ...]:
    """Delete every resource of the plan that the journal records."""
    return _delete(run, run.steps)


def roll_back(run: ApplyRun) -> tuple[DeletionResult, ...]:
    """Delete the steps in the journal; a failed creation may have left something as well."""
    return _delete(run, tuple(step for step in run.steps if run.is_recorded(step)))


def _delete(run: ApplyRun, steps: tuple[CallStep, ...]) -> tuple[DeletionResult, ...]:
    results: list[DeletionResult] = []
    for number, step in enumerate(reversed(steps), start=1):
        result = _try_delete(run, step, steps)
        why = f" ({result.why})" if result.why else ""
        run.on_progress(f"{number}/{len(steps)} {step.what}: {result.outcome}{why}")
        results.append(result)
    return tuple(results)


def _try_delete(run: ApplyRun, step: CallStep, steps: tuple[CallStep, ...]) -> DeletionResult:
    is_untouched = run.journal.state(step.step).phase == "untouched"
    cluster = step.cluster_step if isinstance(step, KubernetesObject) else ""
    # A cluster that the journal does not record stays, so its objects are deleted one by one.
    if any(other.step == cluster and run.is_recorded(other) for other in steps):
        if is_untouched:
            return _result(step, "did not exist")
        run.record("removed", step, note="deleted with its cluster")
        return _result(step, "deleted", why="deleted with its cluster")
    missing = run.client(step).missing_prerequisite(step)
    if missing and is_untouched:
        return _result(step, "did not exist")
    if missing:
        return _result(step, "failed", why=missing, fix=_by_hand(step))
    try:
        return delete_step(run, step)
    except ApiError as error:
        if _is_bucket(step) and error.code in ("notEmpty", "conflict"):
            fix = f"if you need none of it: gcloud storage rm --recursive gs://{step.name}"
            return _result(step, "retained", why="the bucket is not empty", fix=fix)
        return _result(step, "failed", why=str(error), fix=error.fix)
    except ExternalError as error:
        return _result(step, "failed", why=error.problem.what, fix=error.problem.fix)


def delete_step(run: ApplyRun, step: CallStep) -> DeletionResult:
    """Delete the resource of a step and verify that it is gone."""
    client = run.client(step)
    state = run.journal.state(step.step)
    if state.phase == "accepted" or (state.phase == "removing" and state.operation):
        _finish_quietly(run, step, state.operation)
    elif state.phase in ("intent", "removing"):
        client.wait_for_inflight_calls(step)  # nothing may appear after the check below
    existing = run.find(step)
    if existing is None:
        if state.phase == "untouched":
            return _result(step, "did not exist")
        run.record("removed", step)
        return _result(step, "deleted")
    if not run.owns(step, existing):
        return _result(step, "retained", why="it belongs to another plan")
    if not run.is_recorded(step):
        why = "the journal does not say that this folder created it"
        return _result(step, "retained", why=why, fix=_by_hand(step))
    request = run.deletion_request_id(step)
    run.record("removing", step, request=request)
    operation = client.start_deletion(step, existing, request)
    if operation:
        run.record("leaving", step, operation=operation)
    client.finish(step, operation)
    # An execution of a job is deleted with the job, so it still exists here.
    is_execution = isinstance(step, ApiCall) and step.identity == "ran"
    if not is_execution and run.find_until(step, exists=False) is not None:
        raise ApiError("still exists", f"{existing.path} still exists after deletion", RESUME)
    run.record("removed", step)
    return _result(step, "deleted")


def _result(
    step: CallStep, outcome: DeletionOutcome, *, why: str = "", fix: str = ""
) -> DeletionResult:
    return DeletionResult(step=step.step, what=step.what, outcome=outcome, why=why, fix=fix)


def _by_hand(step: CallStep) -> str:
    if isinstance(step, KubernetesObject):
        place = f" --namespace={shlex.quote(step.namespace)}" if step.namespace else ""
        return f"kubectl delete {shlex.quote(step.type)} {shlex.quote(step.name)}{place}"
    labels = step.labels
    plan = f" --plan {shlex.quote(labels.plan_hash)}" if labels else ""
    return f"gpuyard sweep --project {shlex.quote(step.project)}{plan} --destroy"


def _is_bucket(step: CallStep) -> TypeGuard[ApiCall]:
    return isinstance(step, ApiCall) and step.api.startswith("storage")


def _finish_quietly(run: ApplyRun, step: CallStep, operation: str) -> None:
    """Wait for an operation; whether the resource exists shows how it ended."""
    try:
        run.client(step).finish(step, operation)
    except ApiError:
        return
