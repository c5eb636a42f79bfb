"""The result of one preflight check: a row of the table that `gpuyard preflight` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc

# failed: applying it will not work; unknown: nothing could be read, so nothing is promised.
Verdict = Literal["ok", "warning", "failed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """What was checked, what it said, and the fix."""

    check: Annotated[str, Doc("folder, service, permissions, zone, quota, capacity, ...")]
    subject: str
    verdict: Verdict
    what: str
    fix: str = ""


def ok(check: str, subject: str, what: str) -> CheckRow:
    """Return a check that passed."""
    return CheckRow(check=check, subject=subject, verdict="ok", what=what)


def failed(check: str, subject: str, what: str, fix: str) -> CheckRow:
    """Return a check that failed: applying would not work."""
    return CheckRow(check=check, subject=subject, verdict="failed", what=what, fix=fix)


def warning(check: str, subject: str, what: str, fix: str = "") -> CheckRow:
    """Return a risk."""
    return CheckRow(check=check, subject=subject, verdict="warning", what=what, fix=fix)


def unknown(check: str, subject: str, what: str, fix: str = "") -> CheckRow:
    """Return a check that could not be made."""
    return CheckRow(check=check, subject=subject, verdict="unknown", what=what, fix=fix)
