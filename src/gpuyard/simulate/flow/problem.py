"""Input of the flow engine: flows, links, dependencies, latencies.

The records are named tuples because compiled functions accept them whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class LinkShares(NamedTuple):
    """The links that each flow loads: those of flow f are at `offset[f]` to `offset[f + 1]`."""

    offset: Ints
    link: Ints
    share: Floats  # load on the link, relative to the rate of the flow


class FlowProblem(NamedTuple):
    """Flows (or classes of equal flows) on links (or classes of equal links)."""

    shares: LinkShares
    capacity_bytes_per_s: Floats
    size_bytes: Floats  # on the wire
    start_s: Floats  # after the last flow that it waits for, or after 0
    latency_s: Floats  # from the last byte sent to the last byte received
    after_index: Ints  # CSR: the flows that each flow waits for
    after: Ints

    @property
    def flow_count(self) -> int:
        return len(self.size_bytes)


class Dependents(NamedTuple):
    """The flows that wait for each flow: those of flow f are at `offset[f]` to `offset[f + 1]`."""

    offset: Ints
    flow: Ints


def dependents_of(problem: FlowProblem) -> Dependents:
    """Invert the dependencies of a problem."""
    owner = np.repeat(np.arange(problem.flow_count), np.diff(problem.after_index))
    order = np.argsort(problem.after, kind="stable")
    index = np.zeros(problem.flow_count + 1, dtype=np.int64)
    np.cumsum(np.bincount(problem.after, minlength=problem.flow_count), out=index[1:])
    return Dependents(index, owner[order].astype(np.int64))
