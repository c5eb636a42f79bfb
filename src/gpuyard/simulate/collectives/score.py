"""Errors of the NCCL time model on published measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from gpuyard.perf.error_bars import ErrorBar, collective_error_bar
from gpuyard.perf.score import ErrorStats, errors
from gpuyard.simulate.collectives.bus import bus_factor
from gpuyard.simulate.collectives.constants import NcclConstants, read_constants
from gpuyard.simulate.collectives.published_collectives import (
    MeasuredCollective,
    SkippedRow,
    read_measured,
)
from gpuyard.simulate.collectives.timing import RankTopology, collective_time

# By size, except where the chip is not named; then networks that no measurement of the fit has
# with that generation of chips.
CollectiveLevel = Literal[
    "small",
    "medium",
    "large",
    "unnamed",
    "small-unmeasured",
    "medium-unmeasured",
    "large-unmeasured",
    "unnamed-unmeasured",
]
# Network technologies and chip generations of the fit; without a network, one server or rack.
MEASURED = frozenset(
    (
        ("none", "ampere"),
        ("none", "hopper"),
        ("none", "blackwell"),
        ("none", "unnamed"),
        ("rdma", "ampere"),
        ("rdma", "hopper"),
        ("rdma", "blackwell"),
        ("rdma", "unnamed"),
        ("efa1", "ampere"),
        ("efa", "hopper"),
        ("tcpx", "hopper"),
        ("tcpxo", "hopper"),
    )
)
SMALL_BYTES = 2.0**20  # up to here, starting takes most of the time
LARGE_BYTES = 2.0**26  # from here on, transferring does
ROUNDING = 0.005  # GB/s: nccl-tests prints two decimals


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """One measurement and its prediction; bandwidths are bus bandwidths."""

    measured: MeasuredCollective
    predicted_s: float
    measured_bytes_per_s: float
    predicted_bytes_per_s: float
    level: CollectiveLevel = "large"  # how far from the measurements of the fit

    @property
    def bar(self) -> ErrorBar:
        """The error bar of its time."""
        return collective_error_bar(self.level)

    @property
    def error(self) -> float:
        """Relative error of the bandwidth, by the nearest time that rounds to the print."""
        if not self.measured.coarse:
            return self.measured.time_s / self.predicted_s - 1.0
        printed, mine = self.measured.printed, self.predicted_bytes_per_s / 1e9
        return mine / min(max(mine, printed - ROUNDING), printed + ROUNDING) - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveErrors:
    """Rows that have something in common, and the errors of their bandwidths."""

    name: str
    errors: ErrorStats


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveScore:
    """Score rows by system and collective; rows without a usable number are only listed."""

    overall: ErrorStats
    measured: ErrorStats  # bandwidths and times
    relative: ErrorStats  # shares of a line rate
    by_system: tuple[CollectiveErrors, ...]
    by_collective: tuple[CollectiveErrors, ...]
    by_size: tuple[CollectiveErrors, ...]
    rows: tuple[ScoredRow, ...]
    coarse_count: (
        int  # rows whose bandwidth is printed with one digit and no time: scored as a band
    )
    refused: tuple[SkippedRow, ...]


def score_collectives(
    rows: Iterable[Mapping[str, str]], constants: NcclConstants | None = None
) -> CollectiveScore:
    """The score of published rows with these constants, or the shipped ones."""
    measured, refused = read_measured(rows)
    return score_measured(measured, refused, constants or read_constants())


def predicted_s(items: Sequence[MeasuredCollective], constants: NcclConstants) -> list[float]:
    """Seconds for each measurement; sizes of one cluster and collective are taken together."""
    groups: dict[tuple[RankTopology, str, str], list[int]] = {}
    for place, item in enumerate(items):
        groups.setdefault((item.cluster, item.collective, item.algorithm), []).append(place)
    seconds = [0.0] * len(items)
    for (cluster, collective, algorithm), places in groups.items():
        sizes = np.array([items[place].size_bytes for place in places])
        timing = collective_time(cluster, collective, sizes, constants, algorithm)
        for place, value in zip(places, timing.time_s, strict=True):
            seconds[place] = float(value) + _host_s(items[place], constants)
    return seconds


def _host_s(item: MeasuredCollective, constants: NcclConstants) -> float:
    """Return what the program that measured adds to NCCL's time."""
    if not item.host:
        return 0.0
    each_s = constants.get("host_s", item.host)
    return each_s * item.cluster.domain_chips if item.host == "threads" else each_s


def network_of(item: MeasuredCollective) -> tuple[str, str]:
    """Return the network technology and the chip generation of a measurement."""
    return item.cluster.technology, item.cluster.generation


def collective_level(
    item: MeasuredCollective, networks: frozenset[tuple[str, str]]
) -> CollectiveLevel:
    """Return how far a measurement is from those of the fit, which had these networks."""
    near = network_of(item) in networks
    if item.cluster.generation == "unnamed":
        size = "unnamed"
        near = item.cluster.technology in {technology for technology, _ in networks}
    elif item.size_bytes <= SMALL_BYTES:
        size = "small"
    else:
        size = "medium" if item.size_bytes < LARGE_BYTES else "large"
    return cast(CollectiveLevel, size if near else f"{size}-unmeasured")


def score_measured(
    measured: Sequence[MeasuredCollective],
    refused: tuple[SkippedRow, ...],
    constants: NcclConstants,
) -> CollectiveScore:
    """The score of measurements."""
    rows = tuple(
        ScoredRow(
            measured=item,
            predicted_s=seconds,
            measured_bytes_per_s=_bus(item, item.time_s),
            predicted_bytes_per_s=_bus(item, seconds),
            level=collective_level(item, MEASURED),
        )
        for item, seconds in zip(measured, predicted_s(measured, constants), strict=True)
    )
    return score_rows(rows, refused)


def score_rows(rows: tuple[ScoredRow, ...], refused: tuple[SkippedRow, ...]) -> CollectiveScore:
    """The summary of predictions, whichever constants each was made with."""
    return CollectiveScore(
        overall=row_errors(rows),
        measured=row_errors([row for row in rows if not row.measured.relative]),
        relative=row_errors([row for row in rows if row.measured.relative]),
        by_system=_split(rows, [row.measured.system for row in rows]),
        by_size=_split(
            rows,
            [
                "up to 1 MiB" if row.measured.size_bytes <= SMALL_BYTES else "over 1 MiB"
                for row in rows
            ],
        ),
        by_collective=_split(rows, [row.measured.collective for row in rows]),
        rows=rows,
        coarse_count=sum(row.measured.coarse for row in rows),
        refused=refused,
    )


def _bus(item: MeasuredCollective, seconds: float) -> float:
    return bus_factor(item.collective, item.cluster.ranks) * item.size_bytes / seconds


def _split(rows: Sequence[ScoredRow], names: Sequence[str]) -> tuple[CollectiveErrors, ...]:
    """Errors of the rows of each name, in order of first appearance."""
    return tuple(
        CollectiveErrors(
            name=name,
            errors=row_errors([row for row, own in zip(rows, names, strict=True) if own == name]),
        )
        for name in dict.fromkeys(names)
    )


def row_errors(rows: Sequence[ScoredRow]) -> ErrorStats:
    """The errors of some rows; a bandwidth printed with one digit is right anywhere in its band."""
    # Of bandwidth, whose bounds are those of time with the opposite sign: predicted over measured
    # bandwidth is measured over predicted time.
    low, high = (np.array([getattr(row.bar, side) for row in rows]) for side in ("low", "high"))
    ratio = np.array([1.0 + row.error for row in rows])
    return errors(ratio, np.ones(len(rows)), bounds=(-high, -low))
