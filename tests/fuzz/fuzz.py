"""Runs targets on mutated files; whatever is not a proper error, too slow or too large is a failure."""

from __future__ import annotations

import contextlib
import io
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import GpuyardError
from gpuyard.serving.request_errors import RequestError

from .targets import FuzzTarget, inputs

MAX_INPUT_S = 30.0
MAX_GROWTH_BYTES = 2 << 30


class TooSlowError(Exception):
    """A reader did not return in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzFailure:
    """An input that a reader does not survive: the seed number reproduces it."""

    target: str
    seed: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzReport:
    """What became of the inputs of one target."""

    target: str
    tries: int
    accepted: int
    failures: tuple[FuzzFailure, ...]
    seconds: float


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    def on_alarm(*_: object) -> None:
        raise TooSlowError(f"no result after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _warm_up(target: FuzzTarget, folder: Path) -> None:
    """Read the seed files once, so that no try pays for imports and compiled kernels."""
    path = folder / f"seed{target.suffix}"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for seed in target.seeds():
            path.write_bytes(seed)
            target.read(path)


def attempt(target: FuzzTarget, seed: int, folder: Path) -> str | None:
    """Read one mutated file; return "" if it was accepted, None if refused, else the failure."""
    path = folder / f"input{target.suffix}"
    path.write_bytes(inputs(target, seed))
    before = _peak_bytes()
    try:
        with (
            _deadline(MAX_INPUT_S),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("error")
            target.read(path)
    except (GpuyardError, RequestError):
        outcome: str | None = None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a native library is not an Exception
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:120]} at {Path(at.filename).name}:{at.lineno}"
    else:
        outcome = ""
    growth = _peak_bytes() - before
    return f"memory grew by {growth >> 20} MiB" if growth > MAX_GROWTH_BYTES else outcome


def fuzz(target: FuzzTarget, tries: int, folder: Path, first: int = 0) -> FuzzReport:
    """Run a target on `tries` inputs, from seed number `first` on."""
    begin_s, accepted, failures = time.perf_counter(), 0, []
    _warm_up(target, folder)
    for seed in range(first, first + tries):
        outcome = attempt(target, seed, folder)
        accepted += outcome == ""
        if outcome:
            failures.append(FuzzFailure(target=target.name, seed=seed, what=outcome))
    return FuzzReport(
        target=target.name,
        tries=tries,
        accepted=accepted,
        failures=tuple(failures),
        seconds=time.perf_counter() - begin_s,
    )
