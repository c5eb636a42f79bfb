"""How old the prices of a plan are."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.plan.option import Plan

REFRESH_AFTER_DAYS = 30  # list prices of accelerators change a few times per year


def price_age(plan: Plan, catalog: Catalog, today: datetime.date) -> Iterator[str]:
    """Yield the dates of the prices, and how to read today's where they are old."""
    names = {
        name
        for option in plan.options
        if option.bill is not None
        for name in (option.bill.price, option.bill.host_price)
    }
    dates = sorted({row.date for row in catalog.prices if row.name in names})
    if not dates:
        return
    days = (today - dates[0]).days
    span = f"{dates[0]}" if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    text = f"prices of {span}, {'the oldest ' if len(dates) > 1 else ''}{days} days old"
    google = any(name.startswith("google/") for name in names)
    if google and days > REFRESH_AFTER_DAYS:
        text += "; `gpuyard catalog refresh` reads today's"
    yield text
