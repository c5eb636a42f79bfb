"""The kinds of no, and the nearest known name."""

from __future__ import annotations

import errno
import pickle

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.errors import Infeasible, InputError, Problem, RefusedError, nearest, one_of, refusal


def test_each_kind_reads_the_same_way() -> None:
    problem = Problem(where="w.yaml:7: model", what='no model named "lama"', fix='use "llama"')
    assert str(problem) == 'error: w.yaml:7: model: no model named "lama"\n  fix: use "llama"'
    assert str(InputError([problem, problem])) == f"{problem}\n{problem}"
    assert str(RefusedError("/tmp/x", "disk full", "make room")) == "error: /tmp/x: disk full\n  fix: make room"
    infeasible = Infeasible(binding="deadline", what="the fastest candidate needs 29 d", fix="raise deadline")
    assert str(infeasible) == "infeasible: deadline: the fastest candidate needs 29 d\n  fix: raise deadline"


def test_what_the_disk_refused_is_known_however_it_is_wrapped() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/data/a")
    rust = ValueError("parquet: underlying IO error: No space left on device (os error 28)")
    for error, where in ((full, "/data/a"), (rust, "here")):
        found = refusal(error, "here")
        assert found is not None
        assert (found.problem.where, found.problem.what) == (where, "No space left on device")
        assert found.problem.fix == "free disk space, then resume"
    torch = refusal(RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"), "here")
    assert torch is not None
    assert torch.problem.what == "a file was cut short as it was written"
    locked = refusal(PermissionError(errno.EACCES, "Permission denied"), "here")
    assert locked is not None
    assert locked.problem.fix.startswith("ask for the right to write there")
    assert refusal(ValueError("7 is no number"), "here") is None
    assert refusal(RuntimeError("CUDA out of memory"), "here") is None


def test_nearest() -> None:
    known = ["llama-3-70b", "llama-3-8b", "Qwen3-8B"]
    assert nearest("lama-3-70b", known) == "llama-3-70b"
    assert nearest("qwen3-8b", known) == "Qwen3-8B"
    assert nearest("resnet", known) is None


def test_one_of() -> None:
    assert one_of([]) == ""
    assert one_of(["a"]) == "a"
    assert one_of(["a", "b", "c"]) == "a, b or c"
    assert one_of(["a"] * 20, limit=2) == "a, a … (20 in all)"


@given(st.lists(st.text(min_size=1), min_size=1, unique=True))
def test_a_known_name_is_nearest_to_itself_up_to_case(names: list[str]) -> None:
    found = nearest(names[0], names)
    assert found is not None
    assert found.casefold() == names[0].casefold()


def test_errors_come_back_whole_from_another_process() -> None:
    wrong = pickle.loads(pickle.dumps(InputError.one("here", "is wrong", "mend it")))
    assert str(wrong) == str(InputError.one("here", "is wrong", "mend it"))
    refused = pickle.loads(pickle.dumps(RefusedError("disk", "is full", "make room")))
    assert refused.problem == RefusedError("disk", "is full", "make room").problem
