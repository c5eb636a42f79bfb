"""How the outputs of a shadow compare with the answers, in one worker or in all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowCounts:
    """How the outputs of a shadow compare with those that clients got."""

    model: str
    version: str
    active: str  # version that it was compared with last
    requests: int = 0
    failures: int = 0
    dropped: int = 0
    rows: int = 0
    rows_different: int = 0  # another label; without labels, another number
    values: int = 0  # numbers that were compared
    difference_sum: float = 0.0
    difference_max: float = 0.0
    seconds_sum: float = 0.0

    def plus(self, other: ShadowCounts) -> ShadowCounts:
        """Return the sum with the counts of another worker."""
        return replace(
            self,
            requests=self.requests + other.requests,
            failures=self.failures + other.failures,
            dropped=self.dropped + other.dropped,
            rows=self.rows + other.rows,
            rows_different=self.rows_different + other.rows_different,
            values=self.values + other.values,
            difference_sum=self.difference_sum + other.difference_sum,
            difference_max=max(self.difference_max, other.difference_max),
            seconds_sum=self.seconds_sum + other.seconds_sum,
        )


def sum_shadows(items: Iterable[ShadowCounts]) -> tuple[ShadowCounts, ...]:
    """Return the counts of every shadow, summed over workers."""
    sums: dict[tuple[str, str], ShadowCounts] = {}
    for item in items:
        key = (item.model, item.version)
        sums[key] = sums[key].plus(item) if key in sums else item
    return tuple(sums[key] for key in sorted(sums))
