"""Kernels are compiled once, again after an edit of anything they use, and never loaded from where others can write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numba.core.caching import FunctionCache
from numba.core.errors import TypingError

import gpuyard.jit
from gpuyard.jit import jit

CONSTANTS = "RATE = {rate}\n"
CALLEE = """
from gpuyard.jit import jit
from gpuyard.constants import RATE

@jit(forceinline=True)
def scaled(number):
    return {scaled} * number + RATE
"""
CALLER = """
from gpuyard.jit import jit
from gpuyard.callee import scaled

@jit
def twice(number):
    return 2 * scaled(number)
"""
RUN = """
from gpuyard.caller import twice
values = [twice(value) for value in {values}]
print(*values, sum(twice.stats.cache_misses.values()))
"""
# A process that has imported Numba, but nothing of gpuyard, and forks one process per line of JSON.
FORKS = """
import json, os, sys, traceback
import numba
from numba.core.config import reload_config
numba.njit(lambda number: number + 1)(1)  # initialises the compiler
for line in sys.stdin:
    case = json.loads(line)
    child = os.fork()
    if child == 0:
        for fd, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(case[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
        os.environ.update(case["environment"])
        reload_config()
        sys.path.insert(0, case["root"])
        try:
            exec(case["code"], {"__name__": "__main__"})
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def _environment() -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return known | {"PYTHONDONTWRITEBYTECODE": "1"}


class Package:
    """A small package named gpuyard, with our `jit` and a kernel that calls one of another file."""

    def __init__(self, root: Path, forks: subprocess.Popen[str]) -> None:
        self.root, self.home, self._forks = root, root / "gpuyard", forks
        self.home.mkdir()
        shutil.copy(gpuyard.jit.__file__, self.home / "jit.py")
        self.write("__init__", "")
        self.write("caller", CALLER)
        self.edit()

    def write(self, module: str, text: str) -> None:
        (self.home / f"{module}.py").write_text(text, encoding="utf-8")

    def edit(self, scaled: int = 3, rate: int = 1) -> None:
        """Write the callee and the constant that it uses."""
        self.write("constants", CONSTANTS.format(rate=rate))
        self.write("callee", CALLEE.format(scaled=scaled))

    def start(
        self, values: str = "[5]", stderr: int = subprocess.PIPE, **environment: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", RUN.format(values=values)],
            env=_environment() | {"PYTHONPATH": str(self.root), **environment},
            stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip

    def run(self, values: str = "[5]", **environment: str) -> tuple[str, str, str]:
        """The result, how many times `twice` was compiled, and what was written to stderr."""
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        out, err = self.root / "out", self.root / "err"
        code = RUN.format(values=values)
        case = {"root": str(self.root), "code": code, "out": str(out), "err": str(err)}
        self._forks.stdin.write(json.dumps(case | {"environment": environment}) + "\n")
        self._forks.stdin.flush()
        assert self._forks.stdout.readline() == "0\n", err.read_text()
        *results, compiled = out.read_text().split()
        return " ".join(results), compiled, err.read_text()

    def cached(self) -> list[Path]:
        return sorted(self.root.rglob("*.nb[ic]"))


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield process


@pytest.fixture
def package(tmp_path: Path, forks: subprocess.Popen[str]) -> Package:
    return Package(tmp_path, forks)


@jit
def down_to_zero(number: int) -> int:
    """A kernel that calls itself."""
    return 0 if number <= 0 else 1 + down_to_zero(number - 1)


@jit(inline="always")
def squared(number: float) -> float:
    """A kernel that is copied into its callers."""
    return number * number


@jit
def sum_of_squares(numbers: np.ndarray) -> float:
    """A kernel over an array."""
    total = 0.0
    for number in numbers:
        total += squared(number)
    return total


def test_kernel_that_must_not_allocate_is_rejected_if_it_does() -> None:
    @jit(allocates=False)
    def zeros(count: int) -> np.ndarray:
        return np.zeros(count)

    with pytest.raises(TypingError, match="zeros"):
        zeros(3)


def test_kernel_returns_what_python_returns() -> None:
    numbers = np.arange(5.0)
    assert sum_of_squares(numbers) == sum_of_squares.py_func(numbers) == 30.0  # type: ignore[attr-defined]
    assert down_to_zero(7) == 7


def test_second_process_compiles_nothing(package: Package) -> None:
    assert package.run()[:2] == ("32", "1")
    assert package.run()[:2] == ("32", "0")


def test_edit_of_callee_or_constant_in_another_file_recompiles(package: Package) -> None:
    assert package.run()[0] == "32"
    package.edit(scaled=4)
    assert package.run()[:2] == ("42", "1")
    package.edit(scaled=4, rate=6)
    assert package.run()[:2] == ("52", "1")
    package.edit()
    assert package.run()[:2] == ("32", "0"), "the code of the first sources is still there"


def test_terminal_shows_once_that_kernels_are_compiled(package: Package) -> None:
    def shown() -> str:
        ours, theirs = os.openpty()
        process = package.start("[5, 5.0]", stderr=theirs)
        process.wait()
        os.write(theirs, b"end")
        text = os.read(ours, 4096).decode()
        os.close(ours)
        os.close(theirs)
        assert process.returncode == 0, text
        process.communicate()
        return text

    assert shown().count("compiling for this CPU, once") == 1
    assert shown() == "end"


def test_numba_settings_that_change_the_code_compile_again(package: Package) -> None:
    assert package.run()[1] == "1"
    assert package.run(NUMBA_BOUNDSCHECK="1")[1] == "1"
    assert package.run()[1] == "0"


def test_edit_of_unrelated_module_does_not_recompile(package: Package) -> None:
    package.run()
    package.write("unrelated", "X = 1\n")
    assert package.run()[1] == "0"


def test_imports_over_several_lines_and_of_submodules_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpuyard.jit, "_PACKAGE", tmp_path)
    (tmp_path / "part").mkdir()
    for name in ("__init__", "one", "two"):
        (tmp_path / "part" / f"{name}.py").touch()
    (tmp_path / "plain.py").touch()

    def files(source: str) -> list[str]:
        return sorted(
            str(file.relative_to(tmp_path)) for file in gpuyard.jit._imported_files(source)
        )

    assert files("from gpuyard.part import one, two  # both\n") == ["part/one.py", "part/two.py"]
    assert files("from gpuyard.part import (\n    one,\n    NAME,\n)\n") == [
        "part/__init__.py",
        "part/one.py",
    ]
    assert files("from gpuyard.plain import NAME as OTHER\nimport gpuyard.part.two\n") == [
        "part/two.py",
        "plain.py",
    ]
    assert (
        files("import numpy as np\nfrom os import path\n    from gpuyard.plain import late\n") == []
    )


def test_truncated_cache_file_is_rewritten(package: Package) -> None:
    package.run()
    for file in package.cached():
        file.write_bytes(file.read_bytes()[:40])
    assert package.run()[:2] == ("32", "1")
    assert package.run()[:2] == ("32", "0")


def test_concurrent_compilation_leaves_complete_cache(package: Package) -> None:
    kinds = ("[5]", "[5.0]", "[5, 5.0]", "[5.0, 5]")  # two signatures, in every order
    expected = ["32", "32.0", "32 32.0", "32.0 32"]
    for process, result in [
        (package.start(values), result) for values, result in zip(kinds, expected, strict=True)
    ]:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert out.rsplit(maxsplit=1)[0] == result
    assert [package.run(values)[:2] for values in kinds] == [(result, "0") for result in expected]
    assert not list(package.root.rglob("*.tmp.*"))


def test_function_is_written_by_one_process_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2)

    def save(*_: object) -> bool:
        try:
            together.wait(timeout=0.5)
        except threading.BrokenBarrierError:
            return False
        return True

    met = []
    monkeypatch.setattr(FunctionCache, "save_overload", lambda *words: met.append(save(*words)))
    caches = [gpuyard.jit._KernelCache(down_to_zero.py_func) for _ in range(2)]  # type: ignore[attr-defined]
    threads = [threading.Thread(target=cache.save_overload, args=(None, None)) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert met == [False, False]


def test_read_only_package_uses_user_cache_directory(package: Package) -> None:
    (package.home / "__pycache__").write_text("in the way")
    own = package.root / "own"
    own.mkdir(mode=0o700)
    assert package.run(XDG_CACHE_HOME=str(own))[:2] == ("32", "1")
    assert package.cached()
    assert all(own in file.parents for file in package.cached())
    assert package.run(XDG_CACHE_HOME=str(own))[1] == "0"


def test_where_nothing_can_be_written_kernels_are_compiled_every_time(package: Package) -> None:
    (package.home / "__pycache__").write_text("in the way")
    (package.root / "own").write_text("in the way")
    for _ in range(2):
        result, _, err = package.run(XDG_CACHE_HOME=str(package.root / "own"))
        assert result == "32"
        assert "not cached: no cache directory is writable" in err
    assert not package.cached()


def test_code_is_not_loaded_from_a_directory_that_others_can_write(package: Package) -> None:
    shared = package.root / "shared"
    shared.mkdir(mode=0o700)
    assert package.run(NUMBA_CACHE_DIR=str(shared))[1] == "1"
    assert package.run(NUMBA_CACHE_DIR=str(shared))[1] == "0"
    shared.chmod(0o777)
    result, compiled, err = package.run(NUMBA_CACHE_DIR=str(shared))
    assert (result, compiled) == ("32", "1")
    assert "not cached: other users can write to" in err


@pytest.mark.parametrize(
    ("mode", "above", "private"),
    [(0o700, 0o700, True), (0o755, 0o755, True), (0o777, 0o700, False), (0o720, 0o700, False), (0o700, 0o777, False),
     (0o700, 0o1777, True), (0o1777, 0o700, False)],
)  # fmt: skip
def test_directory_is_private_if_its_parents_are(
    tmp_path: Path, mode: int, above: int, private: bool
) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    inner.chmod(mode)
    outer.chmod(above)
    assert gpuyard.jit._is_private(inner) is private


def test_directory_of_another_user_is_not_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid() == 0:
        os.chown(tmp_path, 12345, 12345)
    else:
        monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert not gpuyard.jit._is_private(tmp_path)


def test_relative_cache_directory_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuyard.jit import _is_private

    monkeypatch.chdir(Path.home())
    assert not _is_private(Path())
