"""Checks of a fabric, what each verifies, and the findings of a verification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Generic, Literal, TypeVar

from gpuyard.document.field_types import Doc, FormerName
from gpuyard.errors import SEVERITIES, Finding, Findings

Verdict = Literal["passed", "failed", "skipped"]
T = TypeVar("T")


def error(rule: str, where: str, what: str, fix: str) -> Finding:
    """Return a finding that breaks the fabric."""
    return Finding(rule=rule, severity="error", where=where, what=what, fix=fix)


def warning(rule: str, where: str, what: str, fix: str) -> Finding:
    """Return a finding that is a risk."""
    return Finding(rule=rule, severity="warning", where=where, what=what, fix=fix)


def note(rule: str, where: str, what: str) -> Finding:
    """Return a finding that is information."""
    return Finding(rule=rule, severity="note", where=where, what=what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[T]):
    """A check: its rule id, what it verifies, and the function that finds violations."""

    name: str
    verifies: str
    find: Callable[[T], Iterator[Finding]]

    def run(self, subject: T) -> tuple[Checked, tuple[Finding, ...]]:
        """Run the check and return its verdict and its merged findings."""
        findings = merged(self.find(subject))
        count = sum(finding.place_count for finding in findings if finding.severity != "note")
        checked = Checked(
            name=self.name,
            verifies=self.verifies,
            verdict="failed" if count else "passed",
            finding_count=count,
        )
        return checked, findings

    def skipped(self, why: str) -> Checked:
        """Return the record of a check that did not run."""
        return Checked(
            name=self.name, verifies=self.verifies, verdict="skipped", finding_count=0, why=why
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One check after it ran."""

    name: str
    verifies: Annotated[str, FormerName("proves")]
    verdict: Verdict
    finding_count: int
    why: Annotated[str, Doc("why the check was skipped")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(Findings):
    """All findings, the worst first, and the checks that ran."""

    checks: tuple[Checked, ...]
    findings: tuple[Finding, ...]


def merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings that differ only in their place, and sort them by severity."""
    groups: dict[tuple[str, str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.rule, finding.severity, finding.what, finding.fix)
        first = groups.get(key)
        if first is None:
            groups[key] = finding
        else:
            groups[key] = replace(first, place_count=first.place_count + finding.place_count)
    return tuple(sorted(groups.values(), key=lambda finding: SEVERITIES.index(finding.severity)))
