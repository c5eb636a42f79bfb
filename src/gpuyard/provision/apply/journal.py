"""Write-ahead journal of an apply: fsynced before each API call, read back after a crash.

Each line is an event of a step. `intent` is on disk before a creation is sent and `removing` before
a deletion is sent, so whatever exists on the server is in the journal, whenever the process dies.
Every line is signed together with the lines before it (`journal_chain.py`).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated, Literal

from gpuyard.document.encode import load_json, plain
from gpuyard.document.field_types import Doc
from gpuyard.errors import ExternalError, InputError
from gpuyard.provision.apply.journal_chain import (
    ChainLink,
    chained_line,
    check_head,
    save_head,
    verified_links,
)
from gpuyard.provision.apply.journal_records import check_record, remove_records, save_record
from gpuyard.provision.apply.signing import SigningKey, existing_key, has_key

JOURNAL_FILE = "apply.jsonl"
SPACE = uuid.uuid5(uuid.NAMESPACE_OID, "gpuyard apply")

# Saved in the file: do not rename. "made" is a completed creation, "lost" a created resource that
# has disappeared, "leaving" a deletion that the server accepted.
Event = Literal[
    "begin", "intent", "accepted", "made", "failed", "lost", "removing", "leaving", "removed"
]
Phase = Literal["untouched", "intent", "accepted", "made", "removing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One line: an event of a step that is about to happen or has happened."""

    event: Event
    step: Annotated[str, Doc("the file of the call; empty for `begin`")] = ""
    resource: Annotated[str, Doc("the one object that the step creates")] = ""
    request_id: str = ""
    operation: Annotated[str, Doc("path of the operation that the server returned")] = ""
    note: str = ""
    deployment: Annotated[str, Doc("hash of the rendered deployment, for `begin`")] = ""
    at_s: Annotated[float, Doc("seconds since the epoch")] = 0.0
    journal: Annotated[str, Doc("id of the journal, in its first line")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """State of a step according to the journal."""

    phase: Phase = "untouched"
    operation: str = ""
    attempt: Annotated[int, Doc("a new attempt needs a new request id")] = 0


class Journal:
    """An append-only file, locked by one process at a time."""

    def __init__(
        self, path: Path, file: IO[bytes], key: SigningKey, links: tuple[ChainLink, ...]
    ) -> None:
        self.path = path
        self.entries = list(_entries(links, key, path))
        self._file = file
        self._key = key
        self._newest_mac = links[-1].mac if links else ""
        self._states = states_of(self.entries)

    @classmethod
    def open(cls, path: Path, key: SigningKey) -> Journal:
        """Open and lock a journal, dropping a torn last line.

        Raises ExternalError if another process holds the lock, InputError if it was changed.
        """
        file = _opened(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            what = "another apply or destroy is running"
            raise ExternalError(str(path), what, "wait until it finishes") from None
        try:
            file.seek(0)
            content = file.read()
            complete = _complete_lines(content)
            journal = cls(path, file, key, verified_links(complete, key, path))
            if len(complete) < len(content):
                file.truncate(len(complete))
            _sync_folder(path.parent)
        except InputError:
            file.close()
            raise
        return journal

    @classmethod
    def read(cls, path: Path, key: SigningKey) -> tuple[JournalEntry, ...]:
        """Return the entries of a journal without locking it; none if there is no journal."""
        if not path.exists():
            check_record(path, "", key)
            return ()
        return _entries(verified_links(_complete_lines(path.read_bytes()), key, path), key, path)

    def append(self, entry: JournalEntry) -> None:
        """Write one line and wait until it is on disk."""
        if not self.entries:
            entry = replace(entry, journal=secrets.token_hex(16))
        identity = self.entries[0].journal if self.entries else entry.journal
        was_live = self._has_live_steps()
        if entry.step:
            self._states[entry.step] = _after(self.state(entry.step), entry)
        if self._has_live_steps() and not was_live:
            save_record(self.path, identity, self._key)
        body = json.dumps(plain(entry), ensure_ascii=False, separators=(",", ":"))
        line, link = chained_line(body, self._newest_mac, self._key)
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.entries.append(entry)
        self._newest_mac = link.mac
        save_head(link.mac, identity, self._key)
        if was_live and not self._has_live_steps():
            remove_records(identity, self._key)

    def records(self, step: str, resource: str) -> bool:
        """Return whether an apply has created a resource, or may have."""
        return any(
            entry.event in ("intent", "made") and entry.step == step and entry.resource == resource
            for entry in self.entries
        )

    def state(self, step: str) -> StepState:
        return self._states.get(step, StepState())

    def _has_live_steps(self) -> bool:
        return any(state.phase != "untouched" for state in self._states.values())

    def close(self) -> None:
        """Close the file and release the lock."""
        self._file.close()


def states_of(entries: Iterable[JournalEntry]) -> dict[str, StepState]:
    """Return the state of each step after the entries."""
    states: dict[str, StepState] = {}
    for entry in entries:
        if entry.step:
            states[entry.step] = _after(states.get(entry.step, StepState()), entry)
    return states


def _after(state: StepState, entry: JournalEntry) -> StepState:
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
            return StepState(attempt=state.attempt + 1)
        case _:
            return state


def live_steps(entries: Iterable[JournalEntry]) -> tuple[str, ...]:
    """Return the steps whose resources exist, or may exist."""
    return tuple(step for step, state in states_of(entries).items() if state.phase != "untouched")


def check_nothing_deployed(folder: Path) -> None:
    """Raise ExternalError if resources of the folder may exist: a new rendering orphans them."""
    path = folder / JOURNAL_FILE
    if not path.exists() and not has_key():
        return
    steps = live_steps(Journal.read(path, existing_key(str(path))))
    if steps:
        what = f"{len(steps)} resources of an earlier rendering still exist, e.g. of {steps[0]}"
        fix = "render into another folder, or run `gpuyard provision DIR --destroy` first"
        raise ExternalError(str(folder / JOURNAL_FILE), what, fix)


def request_id(deployment: str, step: str, verb: str, attempt: int) -> str:
    """Return the id that makes a call idempotent: the same for every retry of one attempt."""
    return str(uuid.uuid5(SPACE, f"{deployment} {step} {verb} {attempt}"))


def _opened(path: Path) -> IO[bytes]:
    # A link would let whoever can write to the folder choose another file to append to.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.fdopen(os.open(path, flags, 0o600), "r+b")
    except OSError as error:
        what = f"cannot be opened: {error.strerror}"
        raise ExternalError(str(path), what, "it must be a writable file, not a link") from None


def _entries(links: tuple[ChainLink, ...], key: SigningKey, path: Path) -> tuple[JournalEntry, ...]:
    entries = tuple(
        load_json(link.body, JournalEntry, f"{path}:{number}")
        for number, link in enumerate(links, start=1)
    )
    check_record(path, entries[0].journal if entries else "", key)
    if entries:
        check_head(links, entries[0].journal, key, path)
    return entries


def _complete_lines(content: bytes) -> bytes:
    # A crash in the middle of a write leaves part of the last line, never more.
    return content[: content.rfind(b"\n") + 1]


def _sync_folder(folder: Path) -> None:
    # The directory entry of a new file needs its own fsync.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
