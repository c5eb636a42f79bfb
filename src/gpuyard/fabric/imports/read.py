"""Reads cabling reports: a CSV of cables, or LLDP neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuyard.errors import InputError, Problem
from gpuyard.fabric.imports.cable_csv import read_table
from gpuyard.fabric.imports.lldp import looks_like_lldp, read_lldp
from gpuyard.fabric.imports.observed_cable import ObservedCable


@dataclass(frozen=True, slots=True, kw_only=True)
class CablingReport:
    """The text of a file; the file is named after the reporting device."""

    file: str
    text: str

    @property
    def device(self) -> str:
        """The device in the file name: leaf-1 for leaf-1.lldp.json."""
        return self.file.replace("\\", "/").rpartition("/")[2].partition(".")[0]


def read_reports(reports: Iterable[CablingReport]) -> tuple[ObservedCable, ...]:
    """Return the cables of all reports; raise InputError with the problems of every file."""
    cables: list[ObservedCable] = []
    problems: list[Problem] = []
    for report in reports:
        try:
            if looks_like_lldp(report.text):
                cables += read_lldp(report.text, report.file, report.device)
            else:
                cables += read_table(report.text, report.file)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    if not cables:
        raise InputError.one(
            "import", "the reports contain no cable", "use a CSV of cables or LLDP reports"
        )
    return tuple(cables)
