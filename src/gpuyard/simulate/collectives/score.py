"""Errors of the NCCL time model against published measurements, by system and by collective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuyard.perf.score import Errors, errors
from gpuyard.simulate.collectives.bus import bus_factor
from gpuyard.simulate.collectives.constants import Constants, read_constants
from gpuyard.simulate.collectives.published import Measured, Refused, read_measured
from gpuyard.simulate.collectives.timing import Cluster, collective_time

__all__ = [
    "Group", "Score", "ScoredRow", "predicted_s", "row_errors", "score_collectives", "score_measured", "score_rows",
]  # fmt: skip


ROUNDING = 0.005  # GB/s: nccl-tests prints two decimals


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """One measurement beside its prediction; bandwidths are bus bandwidths."""

    measured: Measured
    predicted_s: float
    measured_bytes_per_s: float
    predicted_bytes_per_s: float

    @property
    def error(self) -> float:
        """Predicted over measured bandwidth, less one; from the times, or from the nearest that rounds to the print."""
        if not self.measured.coarse:
            return self.measured.time_s / self.predicted_s - 1.0
        printed, mine = self.measured.printed, self.predicted_bytes_per_s / 1e9
        return mine / min(max(mine, printed - ROUNDING), printed + ROUNDING) - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows that have something in common, and the errors of their bandwidths."""

    name: str
    errors: Errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """All rows together, and by system and collective; rows without a usable number are told, not scored."""

    overall: Errors
    measured: Errors  # bandwidths and times
    relative: Errors  # shares of a line rate
    by_system: tuple[Group, ...]
    by_collective: tuple[Group, ...]
    rows: tuple[ScoredRow, ...]
    coarse_count: int  # rows whose bandwidth is printed with one digit and no time: scored as a band
    refused: tuple[Refused, ...]


def score_collectives(rows: Iterable[Mapping[str, str]], constants: Constants | None = None) -> Score:
    """The score of published rows with these constants, or the shipped ones."""
    measured, refused = read_measured(rows)
    return score_measured(measured, refused, constants or read_constants())


def predicted_s(items: Sequence[Measured], constants: Constants) -> list[float]:
    """Seconds for each measurement; sizes of one cluster and collective are taken together."""
    groups: dict[tuple[Cluster, str, str], list[int]] = {}
    for place, item in enumerate(items):
        groups.setdefault((item.cluster, item.collective, item.algorithm), []).append(place)
    seconds = [0.0] * len(items)
    for (cluster, collective, algorithm), places in groups.items():
        sizes = np.array([items[place].size_bytes for place in places])
        timing = collective_time(cluster, collective, sizes, constants, algorithm)
        for place, value in zip(places, timing.time_s, strict=True):
            seconds[place] = float(value)
    return seconds


def score_measured(measured: Sequence[Measured], refused: tuple[Refused, ...], constants: Constants) -> Score:
    """The score of measurements."""
    rows = tuple(
        ScoredRow(
            measured=item,
            predicted_s=seconds,
            measured_bytes_per_s=_bus(item, item.time_s),
            predicted_bytes_per_s=_bus(item, seconds),
        )
        for item, seconds in zip(measured, predicted_s(measured, constants), strict=True)
    )
    return score_rows(rows, refused)


def score_rows(rows: tuple[ScoredRow, ...], refused: tuple[Refused, ...]) -> Score:
    """The summary of predictions, whichever constants each was made with."""
    return Score(
        overall=row_errors(rows),
        measured=row_errors([row for row in rows if not row.measured.relative]),
        relative=row_errors([row for row in rows if row.measured.relative]),
        by_system=_split(rows, [row.measured.system for row in rows]),
        by_collective=_split(rows, [row.measured.collective for row in rows]),
        rows=rows,
        coarse_count=sum(row.measured.coarse for row in rows),
        refused=refused,
    )


def _bus(item: Measured, seconds: float) -> float:
    """Bus bandwidth."""
    return bus_factor(item.collective, item.cluster.ranks) * item.size_bytes / seconds


def _split(rows: Sequence[ScoredRow], names: Sequence[str]) -> tuple[Group, ...]:
    """Errors of the rows of each name, in order of first appearance."""
    return tuple(
        Group(name=name, errors=row_errors([row for row, own in zip(rows, names, strict=True) if own == name]))
        for name in dict.fromkeys(names)
    )


def row_errors(rows: Sequence[ScoredRow]) -> Errors:
    """The errors of some rows; a bandwidth printed with one digit is right anywhere in its band."""
    return errors(np.array([1.0 + row.error for row in rows]), np.ones(len(rows)))
