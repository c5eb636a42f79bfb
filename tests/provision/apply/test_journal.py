"""The journal: whole lines only, one holder, states that follow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.errors import InputError, RefusedError
from gpuyard.provision.apply.journal import Entry, Journal, check_none_stand, request_id, states_of


def test_a_torn_line_is_cut_off_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "apply.jsonl"
    first = Journal.open(path)
    first.append(Entry(event="intent", step="10-x.json"))
    first.close()
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole + whole[:length])
        again = Journal.open(path)
        assert len(again.entries) == (2 if length == len(whole) else 1)
        again.append(Entry(event="made", step="10-x.json"))
        again.close()
        assert [json.loads(line)["event"] for line in path.read_text().splitlines()][-1] == "made"
        assert Journal.read(path)[-1].event == "made"


def test_one_process_holds_it(tmp_path: Path) -> None:
    held = Journal.open(tmp_path / "apply.jsonl")
    with pytest.raises(RefusedError, match="another apply"):
        Journal.open(tmp_path / "apply.jsonl")
    held.close()
    Journal.open(tmp_path / "apply.jsonl").close()


def test_a_foreign_line_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "apply.jsonl"
    path.write_text('{"event":"made","step":"x"}\n{"event":"dreamt"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"apply.jsonl:2"):
        Journal.open(path)


def test_a_folder_with_something_standing_is_not_rendered_into(tmp_path: Path) -> None:
    check_none_stand(tmp_path)
    journal = Journal.open(tmp_path / "apply.jsonl")
    journal.append(Entry(event="intent", step="10-x.json"))
    with pytest.raises(RefusedError, match=r"10-x.json"):
        check_none_stand(tmp_path)
    journal.append(Entry(event="removed", step="10-x.json"))
    journal.close()
    check_none_stand(tmp_path)


EVENTS = st.sampled_from(["intent", "accepted", "made", "failed", "lost", "removing", "leaving", "removed"])


@given(st.lists(EVENTS, max_size=12))
def test_a_round_ends_with_its_try_and_never_comes_back(events: list[str]) -> None:
    entries = [Entry(event=event, step="a") for event in events]  # type: ignore[arg-type]
    rounds = [states_of(entries[:count]).get("a") for count in range(1, len(entries) + 1)]
    numbers = [state.round for state in rounds if state]
    assert numbers == sorted(numbers)
    assert (numbers or [0])[-1] == sum(event in ("failed", "lost", "removed") for event in events)


@given(st.text(max_size=9), st.text(max_size=9), st.integers(0, 9))
def test_request_ids_are_the_same_for_the_same_try_and_only_for_it(plan: str, step: str, attempt: int) -> None:
    made = request_id(plan, step, "make", attempt)
    assert made == request_id(plan, step, "make", attempt)
    assert made != request_id(plan, step, "make", attempt + 1)
    assert made != request_id(plan, step, "remove", attempt)
