"""Reports of any supported kind: a saved topology, a table of cables, or what devices say of their neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuyard.errors import InputError, Problem
from gpuyard.fabric.imports.lldp import looks_like_lldp, read_lldp
from gpuyard.fabric.imports.sighting import Sighting
from gpuyard.fabric.imports.table import read_table

__all__ = ["Report", "read_reports"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The text of a file; its name without folder and endings tells whose report it is, if nothing else does."""

    file: str
    text: str

    @property
    def device(self) -> str:
        """leaf-1 of leaf-1.lldp.json; dots inside a domain name go with the endings."""
        return self.file.replace("\\", "/").rpartition("/")[2].partition(".")[0]


def read_reports(reports: Iterable[Report]) -> tuple[Sighting, ...]:
    """All sightings of all reports; InputError with the problems of every file."""
    found: list[Sighting] = []
    problems: list[Problem] = []
    for report in reports:
        try:
            if looks_like_lldp(report.text):
                found += read_lldp(report.text, report.file, report.device)
            else:
                found += read_table(report.text, report.file)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    if not found:
        raise InputError.one("import", "no cable in what was given", "give a CSV of cables or LLDP reports")
    return tuple(found)
