"""How often machines stop: records of failures and of spot preemptions, as they were counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import SourceNames
from gpuyard.document import AtLeast, Doc
from gpuyard.units import COUNT, DURATION

__all__ = ["Interruption"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """One record: so many interruptions of so many chips or machines in so much time."""

    name: str
    label: str
    cause: Literal["failure", "preemption"]
    unit: Annotated[Literal["chip", "machine"], Doc("what was counted")]
    events_count: Annotated[float, COUNT, Doc("interruptions seen")]
    unit_count: Annotated[float, COUNT, Doc("chips or machines watched")]
    observed_s: Annotated[float, DURATION, Doc("how long they were watched")]
    source: SourceNames
    chips_per_unit: Annotated[int, AtLeast(1), Doc("chips of one machine of the record")] = 1
    chips: Annotated[tuple[str, ...], Doc("the chips that were watched: names under chips")] = ()
    provider: Annotated[str, Doc("whose machines; of a preemption")] = ""
    restart_s: Annotated[float | None, DURATION, Doc("from an interruption to useful work again")] = None
    default: Annotated[bool, Doc("used where no record is of the chip or the provider")] = False
    note: str = ""

    @property
    def mean_time_between_s(self) -> float:
        """Between two interruptions of one chip or machine."""
        return self.observed_s * self.unit_count / self.events_count
