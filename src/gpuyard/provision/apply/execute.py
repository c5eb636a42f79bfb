"""Apply: each step once, whatever happened before; what it made is known to the journal before it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import Doc
from gpuyard.errors import RefusedError
from gpuyard.provision.apply.calls import CallStep, Found, Manifest
from gpuyard.provision.apply.destroy import Removal, remove_step, roll_back
from gpuyard.provision.apply.hand import FailedError, TakenError, UncertainError
from gpuyard.provision.apply.refusals import BUSY
from gpuyard.provision.apply.work import Work, is_ours

__all__ = ["Applied", "Making", "apply"]

SENDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What became of a step."""

    step: str
    what: str
    end: Literal["made", "stood already", "failed"]
    why: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of all steps; those after a failure were not tried."""

    makings: tuple[Making, ...]
    remaining: Annotated[tuple[str, ...], Doc("steps that this machine cannot do")] = ()
    gap: Annotated[str, Doc("what is missing for them")] = ""
    rollback: Annotated[tuple[Removal, ...], Doc("what was taken back after a failure, where that was asked for")] = ()

    @property
    def failure(self) -> Making | None:
        """The step that failed."""
        return next((making for making in self.makings if making.end == "failed"), None)


def apply(work: Work, *, rollback: bool = False) -> Applied:
    """Makes what is missing, in order; stops at the first failure, and takes all back where that was asked for."""
    makings: list[Making] = []
    for number, step in enumerate(work.steps, start=1):
        gap = work.hand(step).gap(step)
        if gap:
            left = tuple(other.step for other in work.steps[number - 1 :])
            return Applied(makings=tuple(makings), remaining=left, gap=gap)
        making = _step(work, step)
        makings.append(making)
        work.tell(f"{number}/{len(work.steps)} {step.what}: {making.end}")
        if making.end == "failed":
            return Applied(makings=tuple(makings), rollback=roll_back(work) if rollback else ())
    return Applied(makings=tuple(makings))


def _step(work: Work, step: CallStep) -> Making:
    """One step, from wherever it stands."""
    try:
        _conclude(work, step)
        found = work.find(step)
        if found is not None and found.is_broken and _begun(work, step, found):
            remove_step(work, step)  # its making failed and left a ruin
            found = None
        if found is not None and _stands(work, step, found):
            return Making(step=step.step, what=step.what, end="stood already")
        if work.journal.state(step.step).phase == "made":
            work.note("lost", step, note="it was made, and is gone")
        _make(work, step)
    except FailedError as failure:
        work.note("failed", step, note=str(failure))
        why = f"{failure.code}: {failure.what}"
        return Making(step=step.step, what=step.what, end="failed", why=why, fix=failure.fix)
    return Making(step=step.step, what=step.what, end="made")


def _conclude(work: Work, step: CallStep) -> None:
    """Ends what an earlier run had begun: waits for what the server accepted, and for what it may have."""
    state = work.journal.state(step.step)
    if state.phase == "accepted":
        try:
            work.hand(step).finish(step, state.operation)
        except FailedError as failure:
            work.note("failed", step, note=str(failure))  # of the earlier run; this one tries anew
    elif state.phase == "intent":
        work.hand(step).settle(step)
    elif state.phase == "removing":
        try:
            remove_step(work, step)
        except FailedError as failure:
            if failure.code not in BUSY:
                raise
            work.note("made", step, note="it stands: what uses it was not removed")


def _stands(work: Work, step: CallStep, found: Found) -> bool:
    """Whether the step is done already; RefusedError where what stands is not of this plan."""
    phase = work.journal.state(step.step).phase
    if not _mine(work, step, found):
        whose = f"plan {found.stamp.plan_hash}, until {found.stamp.expires}" if found.stamp else "no gpuyard plan"
        fix = "destroy the other one first, or give the workload another name"
        raise RefusedError(step.step, f"{found.resource} stands already and is of {whose}", fix)
    if phase == "made":
        return True
    if isinstance(step, Manifest):
        return False  # some of its objects stand; applying the file brings the rest
    work.note("made", step, note="it stood already" if phase == "untouched" else "")
    return True


def _begun(work: Work, step: CallStep, found: Found) -> bool:
    """Whether it is ours and was never seen to stand whole: what broke later is for people to look at."""
    return work.journal.state(step.step).phase != "made" and _mine(work, step, found)


def _mine(work: Work, step: CallStep, found: Found) -> bool:
    """Whether it is of this rendering, or was begun from this folder."""
    return is_ours(step, found, work.label, exactly=work.journal.state(step.step).phase == "untouched")


def _make(work: Work, step: CallStep) -> None:
    """Sends the call until it is certain that the server has it, and waits until it is done."""
    hand, request = work.hand(step), work.request(step, "make")
    work.note("intent", step, request=request)
    for _ in range(SENDS):
        try:
            operation = hand.start(step, request)
            break
        except TakenError:  # by an earlier try of ours, or by somebody else
            found = work.look_until(step, stands=True)
            if found is not None and _stands(work, step, found):
                return
        except UncertainError:
            hand.settle(step)
            found = work.find(step)
            if found is not None and _stands(work, step, found):
                return
    else:
        fix = "run it again: it goes on where it stopped"
        raise RefusedError(step.step, f"no certain answer after {SENDS} tries", fix)
    if operation:
        work.note("accepted", step, request=request, operation=operation)
    hand.finish(step, operation)
    if work.look_until(step, stands=True) is None:
        raise FailedError("gone", f"{step.what} is not there after it was made", "run it again")
    work.note("made", step)
