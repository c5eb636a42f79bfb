"""Error types, I/O error detection, and name suggestions."""

from __future__ import annotations

import errno
import pickle

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.errors import (
    ExternalError,
    Finding,
    Infeasible,
    InputError,
    Problem,
    choices_text,
    closest_match,
    external_error_from,
    printable,
)


def test_errors_print_location_cause_and_fix() -> None:
    problem = Problem(where="w.yaml:7: model", what='no model named "lama"', fix='use "llama"')
    assert str(problem) == 'error: w.yaml:7: model: no model named "lama"\n  fix: use "llama"'
    assert str(InputError([problem, problem])) == f"{problem}\n{problem}"
    assert (
        str(ExternalError("/tmp/x", "disk full", "make room"))
        == "error: /tmp/x: disk full\n  fix: make room"
    )
    infeasible = Infeasible(
        binding="deadline", what="the fastest candidate needs 29 d", fix="raise deadline"
    )
    assert (
        str(infeasible)
        == "infeasible: deadline: the fastest candidate needs 29 d\n  fix: raise deadline"
    )


def test_control_characters_of_a_file_do_not_reach_the_terminal() -> None:
    hostile = "\x1b[2J\x1b]0;owned\a\r\u202e\x9b31m"
    messages = (
        Problem(where=hostile, what=hostile, fix=hostile),
        Infeasible(binding=hostile, what=hostile, fix=hostile),
        Finding(rule="x", severity="error", where=hostile, what=hostile, fix=hostile),
    )
    for message in messages:
        assert not set("\x1b\a\r\u202e\x9b") & set(str(message))
    assert printable("a\n\tb é 😀 \x1b") == "a\n\tb é 😀 \\x1b"


def test_external_error_from_recognises_wrapped_disk_errors() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/data/a")
    rust = ValueError("parquet: underlying IO error: No space left on device (os error 28)")
    for error, where in ((full, "/data/a"), (rust, "here")):
        cause = external_error_from(error, "here")
        assert cause is not None
        assert (cause.problem.where, cause.problem.what) == (where, "No space left on device")
        assert cause.problem.fix == "free disk space, then resume"
    torch = external_error_from(
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"),
        "here",
    )
    assert torch is not None
    assert "truncated" in torch.problem.what
    locked = external_error_from(PermissionError(errno.EACCES, "Permission denied"), "here")
    assert locked is not None
    assert locked.problem.fix.startswith("check write permission")
    assert external_error_from(ValueError("7 is not a number"), "here") is None
    assert external_error_from(RuntimeError("CUDA out of memory"), "here") is None


def test_closest_match_ignores_case_and_rejects_distant_names() -> None:
    known = ["llama-3-70b", "llama-3-8b", "Qwen3-8B"]
    assert closest_match("lama-3-70b", known) == "llama-3-70b"
    assert closest_match("qwen3-8b", known) == "Qwen3-8B"
    assert closest_match("resnet", known) is None


def test_choices_text_lists_names_and_truncates() -> None:
    assert choices_text([]) == ""
    assert choices_text(["a"]) == "a"
    assert choices_text(["a", "b", "c"]) == "a, b or c"
    assert choices_text(["a"] * 20, limit=2) == "a, a … (20 in all)"


@given(st.lists(st.text(min_size=1), min_size=1, unique=True))
def test_closest_match_of_known_name_is_itself(names: list[str]) -> None:
    match = closest_match(names[0], names)
    assert match is not None
    assert match.casefold() == names[0].casefold()


def test_errors_survive_pickling() -> None:
    wrong = pickle.loads(pickle.dumps(InputError.one("here", "is wrong", "fix it")))
    assert str(wrong) == str(InputError.one("here", "is wrong", "fix it"))
    refused = pickle.loads(pickle.dumps(ExternalError("disk", "is full", "make room")))
    assert refused.problem == ExternalError("disk", "is full", "make room").problem


def test_missing_optional_package_is_an_external_error_with_its_extra() -> None:
    missing = external_error_from(
        ModuleNotFoundError("No module named 'polars.io'", name="polars.io"), "gpuyard run"
    )
    assert missing is not None
    assert missing.problem.where == "gpuyard run"
    assert missing.problem.fix == "pip install 'gpuyard[run]'"
    assert external_error_from(ModuleNotFoundError("No module", name="gpuyard.x"), "here") is None
