"""What a check says: how bad, where, what, and how to mend it; and the row of a table of checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Generic, Literal, TypeVar

from gpuyard.document import Doc

__all__ = [
    "SEVERITIES", "Check", "Checked", "Finding", "Severity", "Verdict", "Verification", "error", "note", "together",
    "verdict_of", "warning",
]  # fmt: skip

Severity = Literal["error", "warning", "note"]
Verdict = Literal["passed", "failed", "skipped"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found: an error breaks the fabric, a warning risks it, a note is what was proven."""

    check: str
    severity: Severity
    where: str
    what: str
    fix: str = ""
    place_count: Annotated[int, Doc("how many places have it; the first is named")] = 1

    def __str__(self) -> str:
        more = f" (and {self.place_count - 1} more)" if self.place_count > 1 else ""
        mend = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{self.severity}: {self.check}: {self.where}{more}: {self.what}{mend}"


def error(check: str, where: str, what: str, fix: str) -> Finding:
    """What breaks the fabric."""
    return Finding(check=check, severity="error", where=where, what=what, fix=fix)


def warning(check: str, where: str, what: str, fix: str) -> Finding:
    """What risks it."""
    return Finding(check=check, severity="warning", where=where, what=what, fix=fix)


def note(check: str, where: str, what: str) -> Finding:
    """What was shown."""
    return Finding(check=check, severity="note", where=where, what=what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[T]):
    """A rule: its name, what it proves when it finds nothing, and the function that looks."""

    name: str
    proves: str
    find: Callable[[T], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One check after it ran."""

    name: str
    proves: str
    verdict: Verdict
    finding_count: int
    why: Annotated[str, Doc("of a check that was skipped: what it lacked")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Everything that the checks found, the worst first, and which checks ran."""

    checks: tuple[Checked, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What breaks the fabric."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What risks it."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    @property
    def is_sound(self) -> bool:
        """True without an error."""
        return not self.errors


def together(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings that differ in their place alone as one, the worst severity first and otherwise in their order."""
    groups: dict[tuple[str, str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.check, finding.severity, finding.what, finding.fix)
        first = groups.get(key)
        if first is None:
            groups[key] = finding
        else:
            groups[key] = replace(first, place_count=first.place_count + finding.place_count)
    return tuple(sorted(groups.values(), key=lambda finding: SEVERITIES.index(finding.severity)))


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Failed with an error or a warning."""
    return "failed" if any(finding.severity != "note" for finding in findings) else "passed"
