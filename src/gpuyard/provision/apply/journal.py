"""The journal of an apply: appended to and forced to the disk before each call, read back after a kill."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated, Literal

from gpuyard.document import Doc, load_json, plain
from gpuyard.errors import InputError, RefusedError

__all__ = [
    "JOURNAL_FILE", "Entry", "Event", "Journal", "Phase", "StepState",
    "check_none_stand", "request_id", "stand", "states_of",
]  # fmt: skip

JOURNAL_FILE = "apply.jsonl"
SPACE = uuid.uuid5(uuid.NAMESPACE_OID, "gpuyard apply")

Event = Literal["begin", "intent", "accepted", "made", "failed", "lost", "removing", "leaving", "removed"]
Phase = Literal["untouched", "intent", "accepted", "made", "removing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line: what is about to be done, or what was seen to be done."""

    event: Event
    step: Annotated[str, Doc("the file that the call is of; empty at the beginning of a run")] = ""
    request_id: str = ""
    operation: Annotated[str, Doc("what the server calls the work that it accepted")] = ""
    note: str = ""
    deployment: Annotated[str, Doc("hash of the sealed deployment, at the beginning of a run")] = ""
    at_s: Annotated[float, Doc("seconds of the epoch")] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """Where a step stands by the journal."""

    phase: Phase = "untouched"
    operation: str = ""
    round: Annotated[int, Doc("how often it was ended: a new try needs a new request id")] = 0


class Journal:
    """An append-only file; one process at a time holds it."""

    def __init__(self, path: Path, file: IO[bytes], entries: tuple[Entry, ...]) -> None:
        self.path = path
        self.entries = list(entries)
        self._file = file

    @classmethod
    def open(cls, path: Path) -> Journal:
        """The journal at a path, its torn last line cut off; RefusedError where another process holds it."""
        file = path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise RefusedError(str(path), "another apply or destroy is at work", "wait until it has ended") from None
        file.seek(0)
        whole = file.read()
        kept = whole[: whole.rfind(b"\n") + 1]  # a kill in the middle of a write leaves half a line, never more
        if len(kept) < len(whole):
            file.truncate(len(kept))
        _sync_folder(path.parent)
        try:
            return cls(path, file, _entries(kept.decode(), path))
        except InputError:
            file.close()
            raise

    @classmethod
    def read(cls, path: Path) -> tuple[Entry, ...]:
        """The entries of a journal, without holding it; none where there is no journal."""
        if not path.exists():
            return ()
        whole = path.read_bytes()
        return _entries(whole[: whole.rfind(b"\n") + 1].decode(), path)

    def append(self, entry: Entry) -> None:
        """Writes one line and waits until the disk has it."""
        line = json.dumps(plain(entry), ensure_ascii=False, separators=(",", ":")) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.entries.append(entry)

    def state(self, step: str) -> StepState:
        """Where a step stands."""
        return states_of(self.entries).get(step, StepState())

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()


def states_of(entries: Iterable[Entry]) -> dict[str, StepState]:
    """Where each step stands after the entries."""
    states: dict[str, StepState] = {}
    for entry in entries:
        if entry.step:
            states[entry.step] = _after(states.get(entry.step, StepState()), entry)
    return states


def _after(state: StepState, entry: Entry) -> StepState:
    """The state after one entry."""
    match entry.event:
        case "intent":
            return replace(state, phase="intent", operation="")
        case "accepted":
            return replace(state, phase="accepted", operation=entry.operation)
        case "made":
            return replace(state, phase="made", operation="")
        case "removing":
            return replace(state, phase="removing", operation="")
        case "leaving":
            return replace(state, operation=entry.operation)
        case "failed" | "lost" | "removed":
            return StepState(round=state.round + 1)
        case _:
            return state


def stand(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The steps that stand by the journal, or may."""
    return tuple(step for step, state in states_of(entries).items() if state.phase != "untouched")


def check_none_stand(folder: Path) -> None:
    """RefusedError where the folder's journal tells of something that stands: another rendering would orphan it."""
    steps = stand(Journal.read(folder / JOURNAL_FILE))
    if steps:
        what = f"{len(steps)} resources of an earlier rendering stand, such as that of {steps[0]}"
        fix = "render into another folder, or destroy them first with `gpuyard provision DIR --destroy`"
        raise RefusedError(str(folder / JOURNAL_FILE), what, fix)


def request_id(deployment: str, step: str, verb: str, attempt: int) -> str:
    """The id that makes a call idempotent: the same for every try of the same step in the same round."""
    return str(uuid.uuid5(SPACE, f"{deployment} {step} {verb} {attempt}"))


def _entries(text: str, path: Path) -> tuple[Entry, ...]:
    """The entries of whole lines."""
    try:
        return tuple(
            load_json(line, Entry, f"{path}:{number}") for number, line in enumerate(text.splitlines(), start=1)
        )
    except InputError as error:
        problem = error.problems[0]
        fix = "restore the file; `gpuyard sweep` finds by label what it tells of"
        raise InputError.one(problem.where, f"not a line of a journal: {problem.what}", fix) from None


def _sync_folder(folder: Path) -> None:
    """Makes sure that the folder itself knows the file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
