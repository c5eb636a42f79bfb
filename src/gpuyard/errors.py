"""The kinds of "no": wrong input and a refusing world are raised, infeasible is a result.

    GpuyardError
    ├── InputError     the user's file or flag is wrong; carries every problem found     exit 2
    └── RefusedError   the world said no: disk full, permission denied, API error        exit 4

    Infeasible         a value, not an exception: the request is well-formed and         exit 3
                       nothing satisfies it

Anything else that is raised is a bug and is left to crash.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["GpuyardError", "Infeasible", "InputError", "Problem", "RefusedError", "nearest", "one_of", "refusal"]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)
# How libraries wrap what the system said: those in Rust (polars, safetensors), and PyTorch, which keeps it to itself.
WRAPPED = re.compile(r"([A-Z][\w ,/'-]*) \(os error (\d+)\)")
CUT_SHORT = re.compile(r"inline_container\.cc|PytorchStreamWriter failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with an input: where it is, what is wrong, and how to mend it."""

    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"error: {self.where}: {self.what}\n  fix: {self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """A well-formed request that nothing satisfies: the constraint that binds, and what would release it."""

    binding: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"infeasible: {self.binding}: {self.what}\n  fix: {self.fix}"


class GpuyardError(Exception):
    """Anything gpuyard raises on purpose."""


class InputError(GpuyardError):
    """The input is wrong; all the problems that one pass could find."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        return InputError, (self.problems,)  # so that it comes back whole from another process

    @classmethod
    def one(cls, where: str, what: str, fix: str) -> InputError:
        """The error with a single problem."""
        return cls([Problem(where=where, what=what, fix=fix)])


class RefusedError(GpuyardError):
    """The world refused: a file that cannot be written, a service that answers no."""

    def __init__(self, where: str, what: str, fix: str) -> None:
        self.problem = Problem(where=where, what=what, fix=fix)
        super().__init__(str(self.problem))

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, str, str]]:
        return RefusedError, (self.problem.where, self.problem.what, self.problem.fix)


def refusal(error: BaseException, where: str, then: str = "then resume") -> RefusedError | None:
    """What the system refused, where that is behind an exception; None for one that has another cause."""
    wrapped = WRAPPED.search(str(error))
    if isinstance(error, OSError) and error.errno is not None:
        number, what = error.errno, error.strerror or str(error)
    elif wrapped:
        number, what = int(wrapped[2]), wrapped[1]
    elif isinstance(error, RuntimeError) and CUT_SHORT.search(str(error)):
        number, what = errno.ENOSPC, "a file was cut short as it was written"
    elif isinstance(error, OSError):
        number, what = 0, str(error)
    else:
        return None
    fix = "free disk space" if number in NO_ROOM else "ask for the right to write there" if number in NO_RIGHT else ""
    place = getattr(error, "filename", None)
    return RefusedError(str(place or where), what, f"{fix or 'see whether its disk is there and whole'}, {then}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be, or None."""
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def one_of(names: Sequence[str], limit: int = 12) -> str:
    """The names as a phrase: `a, b or c`; a long list is cut with a count of the rest."""
    shown = list(names[:limit])
    if len(names) > limit:
        return ", ".join(shown) + f" … ({len(names)} in all)"
    if len(shown) < 2:
        return "".join(shown)
    return ", ".join(shown[:-1]) + " or " + shown[-1]
