"""Kinds of failure: wrong input and external errors are raised, infeasible is a result.

    GpuyardError
    ├── InputError      the user's file or flag is wrong; carries every problem found     exit 2
    └── ExternalError   I/O, permission or API error                                      exit 4

    Infeasible          a value, not an exception: the request is well-formed and         exit 3
                        nothing satisfies it

    Finding             what a check reports: rule, severity, where, what, fix
    Findings            base class of a check's result, with `errors` and `warnings`

Anything else that is raised is a bug and is left to crash.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

EXIT_OK = 0
EXIT_WRONG_INPUT = 2
EXIT_INFEASIBLE = 3
EXIT_EXTERNAL_ERROR = 4
EXIT_INTERRUPTED = 130  # the shell's own number for Ctrl-C

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)
# How libraries wrap an OS error: those in Rust (polars, safetensors), and PyTorch, which hides it.
WRAPPED_OS_ERROR = re.compile(r"([A-Z][\w ,/'-]*) \(os error (\d+)\)")
TORCH_TRUNCATED_FILE = re.compile(r"inline_container\.cc|PytorchStreamWriter failed")

# The extra of pyproject.toml that installs a package, by the name it is imported under.
EXTRAS = {
    "accelerate": "hf", "fsspec": "run", "google": "gcp", "granian": "run", "grpc": "grpc",
    "jax": "jax", "lightgbm": "run", "msgspec": "run", "onnx": "run", "onnxruntime": "run",
    "optuna": "run", "peft": "hf", "PIL": "run", "polars": "run", "pyarrow": "run", "ray": "ray",
    "safetensors": "jax", "scipy": "fit", "skl2onnx": "run", "sklearn": "run",
    "tensorboard": "tensorboard", "tokenizers": "run", "torch": "torch", "transformers": "torch",
    "uvloop": "run",
}  # fmt: skip


# Controls of a terminal, and marks that reorder text; not line ends and tabs.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return text of a file or another program without what a terminal would act on."""
    return _UNPRINTABLE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with an input: where it is, what is wrong, and how to fix it."""

    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        return printable(f"error: {self.where}: {self.what}\n  fix: {self.fix}")

    def as_finding(self, rule: str, severity: Severity = "error") -> Finding:
        return Finding(rule=rule, severity=severity, where=self.where, what=self.what, fix=self.fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """A well-formed request that nothing satisfies: the binding constraint, and the fix."""

    binding: str
    what: str
    fix: str

    def __str__(self) -> str:
        return printable(f"infeasible: {self.binding}: {self.what}\n  fix: {self.fix}")


Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check reports: an error will not work, a warning is a risk, a note is information."""

    rule: str
    severity: Severity
    where: str
    what: str
    fix: str = ""
    place_count: int = 1  # number of places with the same finding; `where` names the first

    def __str__(self) -> str:
        more = f" (and {self.place_count - 1} more)" if self.place_count > 1 else ""
        fix = f"\n  fix: {self.fix}" if self.fix else ""
        return printable(f"{self.severity}: {self.where}{more}: {self.what} [{self.rule}]{fix}")


class Findings:
    """Base class of a check's result: its `findings`, selected by severity."""

    __slots__ = ()
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that will not work."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    @property
    def has_errors(self) -> bool:
        """True if at least one finding is an error."""
        return any(finding.severity == "error" for finding in self.findings)


class GpuyardError(Exception):
    """Base class of the errors that gpuyard raises."""


class InputError(GpuyardError):
    """Wrong input; carries every problem found in one pass."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        return InputError, (self.problems,)  # errors cross process boundaries pickled

    @classmethod
    def one(cls, where: str, what: str, fix: str) -> InputError:
        """Build an error with a single problem."""
        return cls([Problem(where=where, what=what, fix=fix)])


class ExternalError(GpuyardError):
    """An external error: a file that cannot be written, an API that rejects the call."""

    def __init__(self, where: str, what: str, fix: str) -> None:
        self.problem = Problem(where=where, what=what, fix=fix)
        super().__init__(str(self.problem))

    def __reduce__(self) -> tuple[type[ExternalError], tuple[str, str, str]]:
        return ExternalError, (self.problem.where, self.problem.what, self.problem.fix)


def external_error_from(
    error: BaseException, where: str, then: str = "then resume"
) -> ExternalError | None:
    """Return the I/O error or missing package behind an exception; None for another cause."""
    if isinstance(error, ModuleNotFoundError):
        return missing_package(error.name or "", where)
    wrapped = WRAPPED_OS_ERROR.search(str(error))
    if isinstance(error, OSError) and error.errno is not None:
        number, what = error.errno, error.strerror or str(error)
    elif wrapped:
        number, what = int(wrapped[2]), wrapped[1]
    elif isinstance(error, RuntimeError) and TORCH_TRUNCATED_FILE.search(str(error)):
        number, what = errno.ENOSPC, "a file was truncated while it was written"
    elif isinstance(error, OSError):
        number, what = 0, str(error)
    else:
        return None
    if number in DISK_FULL:
        fix = "free disk space"
    elif number in NO_PERMISSION:
        fix = "check write permission"
    else:
        fix = "check that the disk is mounted and healthy"
    filename = getattr(error, "filename", None)
    return ExternalError(str(filename or where), what, f"{fix}, {then}")


def missing_package(module: str, where: str) -> ExternalError | None:
    """Return the error for an optional package that is not installed, or None for any other."""
    package = module.split(".")[0]
    if package not in EXTRAS:
        return None
    fix = f"pip install 'gpuyard[{EXTRAS[package]}]'"
    return ExternalError(where, f"{package} is not installed", fix)


def exit_code_of(error: GpuyardError) -> int:
    """Return the exit code of a raised error."""
    return EXIT_WRONG_INPUT if isinstance(error, InputError) else EXIT_EXTERNAL_ERROR


def closest_match(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name`, or None."""
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def choices_text(names: Sequence[str], limit: int = 12) -> str:
    """Format names as a phrase: `a, b or c`; a long list is truncated and ends with the total."""
    shown = list(names[:limit])
    if len(names) > limit:
        return ", ".join(shown) + f" … ({len(names)} in all)"
    if len(shown) < 2:
        return "".join(shown)
    return ", ".join(shown[:-1]) + " or " + shown[-1]
