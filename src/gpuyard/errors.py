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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["GpuyardError", "Infeasible", "InputError", "Problem", "RefusedError", "nearest", "one_of"]


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
