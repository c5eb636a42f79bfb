"""Destroy and rollback: only what this plan made, in the opposite order, each seen to be gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuyard.errors import RefusedError
from gpuyard.provision.apply.calls import Call, CallStep, Manifest
from gpuyard.provision.apply.hand import FailedError
from gpuyard.provision.apply.work import Work, is_ours

__all__ = ["Removal", "destroy", "remove_step", "roll_back"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What became of what a step had made."""

    step: str
    what: str
    end: Literal["removed", "was not there", "kept", "failed"]
    why: str = ""
    fix: str = ""


def destroy(work: Work) -> tuple[Removal, ...]:
    """Removes what the plan made, known to the journal or not; what is not of the plan is left."""
    return _remove(work, work.steps)


def roll_back(work: Work) -> tuple[Removal, ...]:
    """Removes what the journal says this folder made."""
    return _remove(work, tuple(step for step in work.steps if _touched(work, step)))


def _touched(work: Work, step: CallStep) -> bool:
    """Whether the journal knows of the step, a failed try included: its call may have left something."""
    return any(entry.step == step.step for entry in work.journal.entries)


def _remove(work: Work, steps: tuple[CallStep, ...]) -> tuple[Removal, ...]:
    """Removes steps from the last to the first; a failure does not stop the rest."""
    ends: list[Removal] = []
    for number, step in enumerate(reversed(steps), start=1):
        removal = _removal(work, step, steps)
        work.tell(f"{number}/{len(steps)} {step.what}: {removal.end}" + (f" ({removal.why})" if removal.why else ""))
        ends.append(removal)
    return tuple(ends)


def _removal(work: Work, step: CallStep, steps: tuple[CallStep, ...]) -> Removal:
    """One step."""
    cluster = step.cluster_step if isinstance(step, Manifest) else ""
    if cluster and any(other.step == cluster for other in steps):
        if work.journal.state(step.step).phase == "untouched":
            return Removal(step=step.step, what=step.what, end="was not there")
        work.note("removed", step, note="it goes with its cluster")
        return Removal(step=step.step, what=step.what, end="removed", why="it goes with its cluster")
    gap = work.hand(step).gap(step)
    if gap:
        if work.journal.state(step.step).phase == "untouched":
            return Removal(step=step.step, what=step.what, end="was not there")
        return Removal(step=step.step, what=step.what, end="failed", why=gap, fix=f"kubectl delete -f {step.step}")
    try:
        return remove_step(work, step)
    except FailedError as failure:
        if failure.code in ("notEmpty", "conflict") and isinstance(step, Call) and step.api.startswith("storage"):
            fix = f"when nothing in it is needed: gcloud storage rm --recursive gs://{step.name}"
            return Removal(step=step.step, what=step.what, end="kept", why="it holds objects", fix=fix)
        return Removal(step=step.step, what=step.what, end="failed", why=str(failure), fix=failure.fix)
    except RefusedError as error:
        problem = error.problem
        return Removal(step=step.step, what=step.what, end="failed", why=problem.what, fix=problem.fix)


def remove_step(work: Work, step: CallStep) -> Removal:
    """Removes what a step made, and sees that it is gone."""
    hand, state = work.hand(step), work.journal.state(step.step)
    if state.phase == "accepted" or (state.phase == "removing" and state.operation):
        _ended(work, step, state.operation)
    elif state.phase in ("intent", "removing"):
        hand.settle(step)  # what was sent and not yet done must not appear after we looked
    found = work.find(step)
    if found is None:
        if state.phase != "untouched":
            work.note("removed", step)
        end: Literal["removed", "was not there"] = "was not there" if state.phase == "untouched" else "removed"
        return Removal(step=step.step, what=step.what, end=end)
    if not is_ours(step, found, work.label, exactly=state.phase == "untouched"):
        return Removal(step=step.step, what=step.what, end="kept", why="it is not of this plan")
    request = work.request(step, "remove")
    work.note("removing", step, request=request)
    operation = hand.start_removal(step, found, request)
    if operation:
        work.note("leaving", step, operation=operation)
    hand.finish(step, operation)
    if not _goes_with_parent(step) and work.look_until(step, stands=False) is not None:
        raise FailedError("still there", f"{found.resource} stands after its deletion", "run it again")
    work.note("removed", step)
    return Removal(step=step.step, what=step.what, end="removed")


def _goes_with_parent(step: CallStep) -> bool:
    """A run of a job is deleted with the job."""
    return isinstance(step, Call) and step.identity == "ran"


def _ended(work: Work, step: CallStep, operation: str) -> None:
    """Waits for an operation; how it ended shows in what stands."""
    try:
        work.hand(step).finish(step, operation)
    except FailedError:
        return
