"""What the flow engine solves: flows that load links, wait for each other and take a while to arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Problem", "heirs_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Problem:
    """Flows (or classes of equal flows) over links (or classes of equal links)."""

    entry_index: Ints  # CSR: the links that each flow loads
    entry_link: Ints
    entry_weight: Floats  # load on one link of the class, over the rate of one flow of the class
    capacity_bytes_per_s: Floats
    size_bytes: Floats  # on the wire
    start_s: Floats
    latency_s: Floats  # from the last byte sent to the last byte received
    after_index: Ints
    after: Ints

    @property
    def flow_count(self) -> int:
        """Flows, or classes of them."""
        return len(self.size_bytes)


def heirs_of(after_index: Ints, after: Ints) -> tuple[Ints, Ints]:
    """For each flow, those that wait for it, as an index and one array."""
    flows = len(after_index) - 1
    owner = np.repeat(np.arange(flows), np.diff(after_index))
    order = np.argsort(after, kind="stable")
    index = np.zeros(flows + 1, dtype=np.int64)
    np.cumsum(np.bincount(after, minlength=flows), out=index[1:])
    return index, owner[order].astype(np.int64)
