"""Price rows of a catalog by machine, tabulated once per catalog."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpuyard.catalog.machines import Machine
from gpuyard.catalog.prices import Price

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Prices of a catalog by provider and machine, hosts by provider and region."""

    rows: Mapping[tuple[str, str], tuple[Price, ...]]
    hosts: Mapping[tuple[str, str], tuple[Price, ...]]
    machines_per_region: Mapping[str, int]

    def prices(self, machine: Machine, region: str | None) -> list[Price]:
        """Return the prices of a machine, in one region if it is named."""
        rows = self.rows.get((machine.provider, machine.name), ())
        return [row for row in rows if region is None or row.region == region]


class Same(Generic[T]):
    """A value as a cache key that compares by identity: a catalog has thousands of prices."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value


@functools.lru_cache(maxsize=4)
def price_table(prices: Same[tuple[Price, ...]]) -> PriceTable:
    """Return the price rows of a catalog by machine."""
    rows: dict[tuple[str, str], list[Price]] = {}
    hosts: dict[tuple[str, str], list[Price]] = {}
    for row in prices.value:
        if row.covers == "host":
            hosts.setdefault((row.provider, row.region), []).append(row)
        else:
            rows.setdefault((row.provider, row.machine), []).append(row)
    return PriceTable(
        rows={key: tuple(group) for key, group in rows.items()},
        hosts={key: tuple(group) for key, group in hosts.items()},
        machines_per_region=Counter(row.region for group in rows.values() for row in group),
    )
