"""What a check of an artefact says: how bad, where, what, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["SEVERITIES", "Finding", "Severity"]

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An error will be refused or will not work, a warning costs money or speed, a note is only said."""

    rule: str
    severity: Severity
    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        mend = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{self.severity}: {self.where}: {self.what} [{self.rule}]{mend}"
