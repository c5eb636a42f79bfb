"""Journal: torn lines, locking, step states and request ids."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.errors import ExternalError, InputError
from gpuyard.provision.apply.journal import (
    Journal,
    JournalEntry,
    check_nothing_deployed,
    request_id,
    states_of,
)
from gpuyard.provision.apply.journal_chain import chained_line
from gpuyard.provision.apply.signing import SigningKey, created_key

KEY = created_key()


def test_journal_drops_torn_last_line_on_open(tmp_path: Path) -> None:
    path = tmp_path / "apply.jsonl"
    first = Journal.open(path, KEY)
    first.append(JournalEntry(event="intent", step="10-x.json"))
    first.close()
    line = path.read_bytes()
    for length in range(0, len(line), 7):
        with path.open("ab") as file:
            file.write(line[:length])
        again = Journal.open(path, KEY)
        assert len(again.entries) == 1 + length // 7
        again.append(JournalEntry(event="made", step="10-x.json"))
        again.close()
        assert [json.loads(line)["event"] for line in path.read_text().splitlines()][-1] == "made"
        assert Journal.read(path, KEY)[-1].event == "made"


def test_journal_entry_is_on_disk_before_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(tmp_path / "apply.jsonl", KEY)
    synced: list[bytes] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").read_bytes())
    )
    journal.append(JournalEntry(event="intent", step="10-x.json"))
    journal.close()
    assert journal.path.read_bytes() in synced


def test_journal_is_locked_by_one_process(tmp_path: Path) -> None:
    held = Journal.open(tmp_path / "apply.jsonl", KEY)
    with pytest.raises(ExternalError, match="another apply"):
        Journal.open(tmp_path / "apply.jsonl", KEY)
    held.close()
    Journal.open(tmp_path / "apply.jsonl", KEY).close()


def written(path: Path) -> list[str]:
    """Write a journal of four entries and return its lines."""
    journal = Journal.open(path, KEY)
    for event in ("intent", "accepted", "made", "removing"):
        journal.append(JournalEntry(event=event, step="10-x.json", note="a\u2028b"))
    journal.close()
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def forgeries(lines: list[str]) -> dict[str, tuple[list[str], int | None]]:
    """Changed journals, with the line that is named; None: the whole file."""
    unsigned = '{"event":"intent","step":"10-x.json"}'
    other = SigningKey(secret=b"x" * 32, folder=KEY.folder)
    return {
        "unsigned": ([unsigned], 1),
        "unsigned line added": ([*lines, unsigned], 5),
        "other key": ([chained_line(unsigned, "", other)[0].rstrip()], 1),
        "changed": ([lines[0], lines[1].replace("10-x", "20-x"), *lines[2:]], 2),
        "removed": ([lines[0], *lines[2:]], 2),
        "first removed": (lines[1:], 1),
        "moved": ([lines[0], lines[2], lines[1], lines[3]], 2),
        "repeated": ([*lines, lines[3]], 5),
        "last removed": (lines[:3], None),
        "all but first removed": (lines[:1], None),
        "garbage": (["{}"], 1),
    }


@pytest.mark.parametrize("name", forgeries(["", "", "", ""]))
def test_changed_journal_is_input_error_with_its_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "apply.jsonl"
    lines, number = forgeries(written(path))[name]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for read in (Journal.open, Journal.read):
        with pytest.raises(InputError) as error:
            read(path, KEY)
        where = error.value.problems[0].where
        assert where == (str(path) if number is None else f"{path}:{number}")


def test_journal_of_bytes_that_are_not_text_is_input_error(tmp_path: Path) -> None:
    path = tmp_path / "apply.jsonl"
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(InputError, match="is not text"):
        Journal.open(path, KEY)


def test_line_written_before_its_head_is_saved_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "apply.jsonl"
    written(path)
    journal = Journal.open(path, KEY)
    monkeypatch.setattr(sys.modules[Journal.__module__], "save_head", interrupted)
    with pytest.raises(KeyboardInterrupt):
        journal.append(JournalEntry(event="removed", step="10-x.json"))
    journal.close()
    assert [entry.event for entry in Journal.read(path, KEY)][-1] == "removed"


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_journal_that_is_a_link_is_refused_and_its_target_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious, without a newline", encoding="utf-8")
    (tmp_path / "apply.jsonl").symlink_to(target)
    with pytest.raises(ExternalError, match="not a link"):
        Journal.open(tmp_path / "apply.jsonl", KEY)
    assert target.read_text() == "precious, without a newline"


def test_check_nothing_deployed_raises_external_error_when_resources_exist(tmp_path: Path) -> None:
    check_nothing_deployed(tmp_path)
    journal = Journal.open(tmp_path / "apply.jsonl", KEY)
    journal.append(JournalEntry(event="intent", step="10-x.json"))
    with pytest.raises(ExternalError, match=r"10-x.json"):
        check_nothing_deployed(tmp_path)
    journal.append(JournalEntry(event="removed", step="10-x.json"))
    journal.close()
    check_nothing_deployed(tmp_path)


EVENTS = st.sampled_from(
    ["intent", "accepted", "made", "failed", "lost", "removing", "leaving", "removed"]
)


@given(st.lists(EVENTS, max_size=12))
def test_attempt_increases_after_failed_lost_and_removed_events_only(events: list[str]) -> None:
    entries = [JournalEntry(event=event, step="a") for event in events]  # type: ignore[arg-type]
    states = [states_of(entries[:count]).get("a") for count in range(1, len(entries) + 1)]
    numbers = [state.attempt for state in states if state]
    assert numbers == sorted(numbers)
    assert (numbers or [0])[-1] == sum(event in ("failed", "lost", "removed") for event in events)


@given(st.text(max_size=9), st.text(max_size=9), st.integers(0, 9))
def test_request_id_is_stable_within_an_attempt_and_unique_across_attempts(
    plan: str, step: str, attempt: int
) -> None:
    first_id = request_id(plan, step, "make", attempt)
    assert first_id == request_id(plan, step, "make", attempt)
    assert first_id != request_id(plan, step, "make", attempt + 1)
    assert first_id != request_id(plan, step, "remove", attempt)
