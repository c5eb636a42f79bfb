"""`@jit` compiles a kernel with Numba and caches the machine code on disk for the next process.

A module that imports this one is a kernel module: importing it imports Numba. Other modules import
kernels inside the function that calls them, so a command without heavy computation starts fast.

Invalidation. Numba checks only the file that defines a function, not the kernels and constants
that it uses from other files. So the cache files are named by a digest of the function's module,
of every gpuyard module that it imports, directly or not, of Numba's version and of the NUMBA_*
settings: an edit of any of them compiles again. Numba itself checks the CPU and the argument types.

Location, in Numba's own order: $NUMBA_CACHE_DIR if set; otherwise `__pycache__` next to the source;
if that is read-only, the user's cache directory (`~/.cache/numba`, on macOS
`~/Library/Caches/numba`).

Security. Cached code is executed, so it is loaded only from where other users cannot write.
`__pycache__` is trusted like the sources and the bytecode in it. Any other directory and its
parents must belong to this user or root and be writable by nobody else. If they are not, or if no
directory is writable, a warning is issued and kernels are compiled in every process.

Concurrency. Numba writes a file under a temporary name and renames it. It writes an index and the
code in two steps, so two processes that add different signatures of one function could pair an
index entry with the wrong code; a lock makes the two steps one.
"""

# Numba's cache classes have no type annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import pickle
import re
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, overload

import numba
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache

F = TypeVar("F", bound=Callable[..., object])
Inline = Literal["never", "always"]

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(
    r"^(?:from|import) gpuyard([\w.]*)(?: import (?:\(([^)]*)\)|(.*)))?", re.MULTILINE
)
_BROKEN = (OSError, EOFError, pickle.UnpicklingError)  # a full disk, a truncated file


@overload
def jit(function: F, /) -> F: ...
@overload
def jit(
    *, forceinline: bool = False, inline: Inline = "never", allocates: bool = True
) -> Callable[[F], F]: ...


def jit(
    function: F | None = None,
    /,
    *,
    forceinline: bool = False,
    inline: Inline = "never",
    allocates: bool = True,
) -> F | Callable[[F], F]:
    """Compile a function at its first call; it runs without holding the GIL.

    Args:
        function: takes and returns numbers, arrays and tuples of them.
        forceinline: inline its machine code into its callers, for the small steps of a hot loop.
        inline: "always" copies its source into its callers before they are compiled.
        allocates: False for a function that creates no array. Its references are not counted: a
            named tuple of arrays costs two atomic operations per array and use otherwise.
    """
    if function is None:
        return functools.partial(_compile, forceinline, inline, allocates)
    return _compile(forceinline, inline, allocates, function)


def _compile(forceinline: bool, inline: Inline, allocates: bool, function: F) -> F:
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    uncounted: dict[str, Any] = {} if allocates else {"_nrt": False}
    kernel: Any = numba.njit(nogil=True, forceinline=forceinline, inline=inline, **uncounted)(
        function
    )
    try:
        cache = _KernelCache(function)
    except RuntimeError:  # Numba has no writable directory
        _warn_uncached("no cache directory is writable")
        return cast(F, kernel)
    directory = Path(cache.cache_path)
    next_to_source = Path(function.__code__.co_filename).parent / "__pycache__"
    if directory == next_to_source or _is_private(directory):
        kernel._cache = cache  # what `cache=True` does, with our subclass
    else:
        _warn_uncached(f"other users can write to {directory} or to one of its parents")
    return cast(F, kernel)


class _KernelCacheImpl(CompileResultCacheImpl):
    """Names cache files by the sources that the code depends on."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        digest = _sources_digest(Path(self.locator._py_file))
        return str(super().get_filename_base(f"{fullname}-{digest}", abiflags))


class _KernelCache(FunctionCache):
    """Numba's cache of one function, written by one process at a time; a broken one is rebuilt."""

    _impl_class = _KernelCacheImpl

    def load_overload(self, sig: object, target_context: object) -> object:
        try:
            return super().load_overload(sig, target_context)
        except _BROKEN:
            with contextlib.suppress(OSError), _locked(Path(self.cache_path)):
                self.flush()
            return None

    def save_overload(self, sig: object, data: object) -> None:
        with contextlib.suppress(*_BROKEN), _locked(Path(self.cache_path)):
            super().save_overload(sig, data)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "kernels.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        yield


def _is_private(directory: Path) -> bool:
    """Whether only this user and root can change the directory or replace it by another."""
    # Without a home directory Numba takes `~/.cache` literally, below the working directory.
    if not directory.is_absolute():
        return False
    for place in (directory, *directory.parents):
        status = place.stat()
        writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        sticky = status.st_mode & stat.S_ISVTX and place != directory  # like /tmp: no renames
        if status.st_uid not in (os.getuid(), 0) or (writable and not sticky):
            return False
    return True


@functools.cache
def _sources_digest(file: Path) -> str:
    """Digest of everything that the code of a module's kernels depends on."""
    digest = hashlib.sha256(numba.__version__.encode())
    for name, value in sorted(os.environ.items()):
        if name.startswith("NUMBA_") and name != "NUMBA_CACHE_DIR":
            digest.update(f"{name}={value}\n".encode())
    pending, seen = [file], {file}
    while pending:  # breadth first along the imports, in the order in which they are written
        source = _read(pending.pop(0))
        digest.update(source.encode())
        fresh = [imported for imported in _imported_files(source) if imported not in seen]
        pending += dict.fromkeys(fresh)
        seen.update(fresh)
    return digest.hexdigest()[:16]


@functools.cache
def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _imported_files(source: str) -> Iterator[Path]:
    """Files of the gpuyard modules that a source imports at the top level."""
    for module, several, line in _IMPORT.findall(source):
        home = _PACKAGE.joinpath(*module.split(".")[1:])
        names = re.findall(r"\w+", several or line.split("#")[0])
        submodules = [home / f"{name}.py" for name in names if (home / f"{name}.py").is_file()]
        yield from submodules
        own = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
        some_are_defined_there = len(submodules) < len(names) or not names
        if some_are_defined_there and own.is_file():
            yield own


@functools.cache
def _warn_uncached(reason: str) -> None:
    fix = "set NUMBA_CACHE_DIR to a directory that only you can write to"
    warnings.warn(f"compiled kernels are not cached: {reason}; {fix}", RuntimeWarning, stacklevel=4)


class _Announcer(event.Listener):
    """Prints once why a command waits, if a person is looking."""

    _announced = False

    def on_start(self, event: Any) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if not self._announced and module.startswith("gpuyard.") and sys.stderr.isatty():
            self._announced = True
            sys.stderr.write("compiling for this CPU, once: up to half a minute …\n")
            sys.stderr.flush()

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcer())
