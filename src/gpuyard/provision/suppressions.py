"""Comments that silence findings: `# gpuyard: ignore[rule]`.

At the end of a line a comment applies to that line, on a line by itself to the next one, and
`ignore-file[rule]` to the whole file. Without brackets it applies to every rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpuyard.errors import Finding
from gpuyard.provision.artefact import Artefact

COMMENT = re.compile(r"#\s*gpuyard:\s*ignore(?P<file>-file)?(?:\[(?P<rules>[^\]]*)\])?")
PLACE = re.compile(r"(?P<file>[^:\n]+)(?::(?P<line>\d+))?(?::\s.*)?", re.DOTALL)
ALL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """File and line of a finding; line 0: the whole file."""

    file: str
    line: int = 0


def place_of(finding: Finding) -> Place:
    """Return the place that a finding names as `FILE:LINE: path`."""
    match = PLACE.fullmatch(finding.where)
    if match is None:
        return Place(file=finding.where)
    return Place(file=match["file"], line=int(match["line"] or 0))


def without_ignored(
    findings: Iterable[Finding], artefacts: Iterable[Artefact]
) -> tuple[tuple[Finding, ...], int]:
    """Return the findings that no comment silences, and how many were silenced."""
    ignored = {(place, rule) for artefact in artefacts for place, rule in _comments(artefact)}
    if not ignored:
        return tuple(findings), 0
    all_findings = tuple(findings)
    remaining = tuple(row for row in all_findings if not _is_ignored(row, ignored))
    return remaining, len(all_findings) - len(remaining)


def _is_ignored(finding: Finding, ignored: set[tuple[Place, str]]) -> bool:
    place = place_of(finding)
    places = (place, Place(file=place.file))
    return any((at, rule) in ignored for at in places for rule in (finding.rule, ALL))


def _comments(artefact: Artefact) -> Iterable[tuple[Place, str]]:
    for number, line in enumerate(artefact.text.splitlines(), start=1):
        match = COMMENT.search(line)
        if match is None:
            continue
        is_alone = not line[: match.start()].strip()
        at = 0 if match["file"] else number + 1 if is_alone else number
        for rule in (match["rules"] or ALL).split(","):
            yield Place(file=artefact.name, line=at), rule.strip()
