"""Machine code on disk: used when it is there and right, renewed when it is stale or spoilt, done without if need be."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gpuyard.compiled import compiler, fingerprint, image, store

CALLEE = "from gpuyard.compiled import compiled\nRATE = {rate}\n@compiled\ndef scaled(number):\n    return {scaled}\n"
CALLER = (
    "from gpuyard.compiled import compiled\nimport {callee} as other\nfrom {callee} import scaled\n"
    "@compiled\ndef twice(number):\n    return 2 * scaled(number) + other.RATE\n"
)
LENGTH = (
    "import numpy as np\nfrom gpuyard.compiled import compiled\n@compiled\ndef length(some):\n    return len({some})\n"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache of a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "cache"


def loaded(folder: Path, name: str, text: str) -> ModuleType:
    """A module of that text, as a new process would load it."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(text, str(path), "exec"), module.__dict__)  # not from Python's own cache, whose clock is coarse
    return module


def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing can be compiled."""
    for name in ("callee", "with_numba", "image_of"):
        monkeypatch.setattr(compiler, name, lambda *_: pytest.fail("compiled"))


def files(folder: Path) -> list[Path]:
    """What is kept beside the sources."""
    return sorted(folder.rglob("*.loop*"))


def pair(folder: Path, scaled: str = "3 * number", rate: int = 1) -> ModuleType:
    """A loop that calls one of another file and reads a constant of it."""
    loaded(folder, "callee_of_pair", CALLEE.format(scaled=scaled, rate=rate))
    return loaded(folder, "caller_of_pair", CALLER.format(callee="callee_of_pair"))


def test_what_is_kept_is_not_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pair(tmp_path).twice(5) == 31
    assert files(tmp_path)
    no_compiler(monkeypatch)
    assert pair(tmp_path).twice(5) == 31


def test_a_change_of_a_callee_or_a_constant_elsewhere_renews_the_caller(tmp_path: Path) -> None:
    assert pair(tmp_path).twice(5) == 31
    assert pair(tmp_path, scaled="4 * number").twice(5) == 41
    assert pair(tmp_path, scaled="4 * number", rate=7).twice(5) == 47
    assert len(files(tmp_path)) == 1, "the old code is replaced"


def test_the_same_text_elsewhere_has_code_of_its_own(tmp_path: Path) -> None:
    one, other = (loaded(tmp_path, f"m{number}", "from gpuyard.compiled import compiled\nX = 1\n"
                         f"@compiled\ndef given(n):\n    return n + {number}\n") for number in (1, 2))  # fmt: skip
    assert (one.given(1), other.given(1)) == (2, 3)


@pytest.mark.parametrize("spoil", ["cut", "flip", "empty", "other"])
def test_a_spoilt_file_is_renewed(tmp_path: Path, spoil: str) -> None:
    assert pair(tmp_path).twice(5) == 31
    (path,) = files(tmp_path)
    good = path.read_bytes()
    middle = len(good) // 2
    path.write_bytes({
        "cut": good[:middle], "empty": b"", "other": b"text",
        "flip": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
    }[spoil])  # fmt: skip
    assert pair(tmp_path).twice(5) == 31
    assert store._read(path.read_bytes()) == store._read(good)


def test_an_unknown_relocation_is_left_to_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "_ADDRESS", 99)
    text = LENGTH.format(some="np.zeros(some)")  # it refers to functions that make arrays
    module = loaded(tmp_path, "unknown_relocation", text)
    assert module.length(5) == 5
    (path,) = files(tmp_path)
    found = store._read(path.read_bytes())
    assert found
    assert found.image is None
    assert "relocation of type 1" in found.why
    monkeypatch.setattr(compiler, "image_of", lambda *_: pytest.fail("tried again"))
    assert loaded(tmp_path, "unknown_relocation", text).length(6) == 6


def test_a_function_that_no_library_has_is_left_to_numba(tmp_path: Path) -> None:
    module = loaded(tmp_path, "makes_lists", LENGTH.format(some="[1 for _ in range(some)]"))
    assert module.length(5) == 5
    (path,) = files(tmp_path)
    found = store._read(path.read_bytes())
    assert found
    assert "NRT_" in found.why


def test_where_memory_may_not_be_executed_numba_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def _refuse(_: object) -> int:
        raise image.NotKeptError("memory may not be executed")

    monkeypatch.setattr("gpuyard.compiled.loop.mapped", _refuse)
    assert pair(tmp_path).twice(5) == 31
    monkeypatch.undo()
    assert files(tmp_path), "the code is kept for a process that may"


def test_on_another_machine_numba_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "plan9")
    fingerprint.machine.cache_clear()
    assert pair(tmp_path).twice(5) == 31
    assert not files(tmp_path)
    monkeypatch.undo()
    fingerprint.machine.cache_clear()


def test_a_source_folder_that_cannot_be_written(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "__pycache__").write_text("in the way")
    assert pair(tmp_path).twice(5) == 31
    assert all(own_cache in path.parents for path in files(tmp_path))
    assert files(tmp_path)
    no_compiler(monkeypatch)
    assert pair(tmp_path).twice(5) == 31


def test_no_folder_at_all(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "__pycache__").write_text("in the way")
    own_cache.write_text("in the way")
    assert pair(tmp_path).twice(5) == 31
    assert not files(tmp_path)


def test_machine_code_may_not_be_written(tmp_path: Path) -> None:
    pair(tmp_path).twice(5)
    address = ctypes.addressof(ctypes.c_char.from_buffer(image._MAPPED[-1]))
    rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [(*(int(part, 16) for part in row[0].split("-")), row[1]) for row in rows]
    assert [rights for begin, end, rights in spans if begin <= address < end] == ["r-xp"]


def test_two_processes_at_once(tmp_path: Path) -> None:
    pair(tmp_path)
    code = "import caller_of_pair; print(caller_of_pair.twice(5))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in started] == ["31", "31"]
    assert [path.suffix for path in files(tmp_path)] == [".loop"], "one file, and nothing unfinished"


RUN = """
import json, sys
from gpuyard.cli import main
code = main(json.loads(sys.argv[1]))
sys.stderr.write(json.dumps([code, "numba" in sys.modules, "llvmlite" in sys.modules, "hashlib" in sys.modules]))
"""


@pytest.mark.parametrize(
    "command",
    [
        ("simulate", "traffic", "ring.cm", "--topology", "fat-tree", "--hosts", "16", "--engine", "packet", "--json"),
        ("simulate", "traffic", "ring.cm", "--topology", "fat-tree", "--hosts", "16", "--engine", "flow", "--json"),
        ("simulate", "collective", "all-reduce", "--size", "64MB", "--topology", "fat-tree", "--hosts", "16", "--json"),
    ],
    ids=["packet", "flow", "collective"],
)
def test_a_second_start_loads_no_compiler(command: tuple[str, ...]) -> None:
    folder = Path(__file__).parents[2] / "examples"
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", RUN, json.dumps(command)], capture_output=True, text=True, cwd=folder, check=True
        )
        told = json.loads(done.stderr.splitlines()[-1])
    assert told == [0, False, False, False]
