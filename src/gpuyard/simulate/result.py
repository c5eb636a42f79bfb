"""Result of a simulation: flow start and end times, link loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FlowOutcome:
    """Times of flows and loads of links; a flow that did not finish has NaN."""

    began_s: npt.NDArray[np.float64]
    finish_s: npt.NDArray[np.float64]
    size_bytes: npt.NDArray[np.int64]
    link_bytes: npt.NDArray[np.float64]
    link_rate_bytes_per_s: npt.NDArray[np.float64]

    def __repr__(self) -> str:
        return f"<Outcome of {len(self.finish_s)} flows in {self.duration_s:.6g} s>"

    @property
    def duration_s(self) -> float:
        """When the last flow that finished did."""
        ended = self.finish_s[~np.isnan(self.finish_s)]
        return float(ended.max()) if len(ended) else 0.0

    @property
    def unfinished_count(self) -> int:
        """How many flows did not finish."""
        return int(np.count_nonzero(np.isnan(self.finish_s)))

    @property
    def completion_s(self) -> npt.NDArray[np.float64]:
        """How long every flow took."""
        return self.finish_s - self.began_s

    @property
    def mean_completion_s(self) -> float:
        """The mean time of the flows that finished."""
        return (
            float(np.nanmean(self.completion_s))
            if self.unfinished_count < len(self.finish_s)
            else float("nan")
        )

    def percentile_s(self, percent: float) -> float:
        """Completion time within which this percentage of the finished flows completed."""
        ended = self.completion_s[~np.isnan(self.finish_s)]
        return float(np.percentile(ended, percent)) if len(ended) else float("nan")

    @property
    def link_utilisation(self) -> npt.NDArray[np.float64]:
        """The share of its rate that every link carried until the last flow finished."""
        duration_s = self.duration_s
        full = self.link_rate_bytes_per_s * duration_s
        return self.link_bytes / full if duration_s else np.zeros_like(self.link_bytes)

    @property
    def throughput_bytes_per_s(self) -> npt.NDArray[np.float64]:
        """What every flow got on average."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.size_bytes / self.completion_s


def max_mean_ratio(values: npt.NDArray[np.float64]) -> float:
    """The largest over the mean (MMR): 1 when all are equal; of nothing, 1."""
    mean = float(np.mean(values)) if len(values) else 0.0
    return float(np.max(values)) / mean if mean else 1.0


def jain_index(values: npt.NDArray[np.float64]) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has everything; of nothing, 1."""
    squares = float(np.sum(np.square(values)))
    return float(np.sum(values)) ** 2 / (len(values) * squares) if squares else 1.0
