"""Functions of the user's own Python files: loaded from their text, errors with file and line.

The text is a value, so that a function runs the same in every worker, on every engine and at
serving, where the file itself does not exist.
"""

from __future__ import annotations

import functools
import hashlib
import linecache
import sys
import types
from collections.abc import Callable
from typing import Any

from gpuyard.errors import InputError, Problem

Function = Callable[..., Any]


class CodeError(InputError):
    """The user's code failed, or returned something else than it declares."""

    @classmethod
    def at(cls, where: str, what: str, fix: str = "correct the code") -> CodeError:
        """Return the error for one place."""
        return cls([Problem(where=where, what=what, fix=fix)])


def digest_of_code(code: str) -> str:
    """Return the SHA-256 of the code."""
    return hashlib.sha256(code.encode()).hexdigest()


@functools.lru_cache(maxsize=64)
def load_module(code: str, file: str) -> types.ModuleType:
    """Run the code as a module. Raise CodeError if it fails."""
    module = types.ModuleType(f"gpuyard_code_{digest_of_code(code)[:16]}")
    module.__file__ = file
    lines = code.splitlines(keepends=True)
    linecache.cache[file] = (len(code), None, lines, file)  # for tracebacks of the user's tools
    sys.modules[module.__name__] = module  # dataclasses and typing look it up
    try:
        exec(compile(code, file, "exec"), module.__dict__)
    except SyntaxError as error:
        raise CodeError.at(f"{file}:{error.lineno}", f"is not Python: {error.msg}") from None
    except Exception as error:
        raise _failure(error, file, "cannot be loaded") from error
    return module


def load_function(code: str, file: str, function: str) -> Function:
    """Return a function of the code. Raise CodeError if there is none of this name."""
    named = getattr(load_module(code, file), function, None)
    if not callable(named):
        raise CodeError.at(file, f'has no function "{function}"', "define it, or name another")
    return named  # type: ignore[no-any-return]


def call(function: Function, file: str, *arguments: object) -> Any:
    """Call a function. Raise CodeError with the line of the file where it fails."""
    try:
        return function(*arguments)
    except Exception as error:
        raise _failure(error, file, f"{function.__name__} failed") from error


def _failure(error: Exception, file: str, what: str) -> CodeError:
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    text = str(error).splitlines()[0][:300] if str(error) else ""
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return CodeError.at(f"{file}:{line}" if line else file, f"{what}: {reason}")
