"""Spot leads only where its unknown preemptions leave it the better choice."""

from __future__ import annotations

import pytest

from gpuyard.plan.option import Bill
from gpuyard.plan.spot_advice import by_preference
from gpuyard.units import DAY_S, HOUR_S
from gpuyard.workload.where import ConsumptionName, Where


def bill(consumption: ConsumptionName, run_s: float, usd_per_hour: float, stops: float) -> Bill:
    """The bill of a run."""
    return Bill(
        consumption=consumption,
        region="r",
        price="p",
        usd_per_hour=usd_per_hour,
        billed_s=run_s,
        usd=usd_per_hour * run_s / HOUR_S,
        note="",
        expected_s=run_s,
        low_s=run_s,
        high_s=run_s,
        interruptions_count=stops,
    )


@pytest.mark.parametrize(
    ("machines", "run_s", "stops", "leads"),
    [
        (1, 0.5 * DAY_S, 0.2, True),
        (1, 3 * DAY_S, 2.0, True),
        (1, 9 * DAY_S, 4.0, False),
        (8, 0.2 * DAY_S, 0.4, True),
        (8, 0.9 * DAY_S, 3.0, False),
        (8, 2 * DAY_S, 0.5, False),
    ],
)
def test_spot_leads_for_short_work_without_a_preemption_to_expect(
    machines: int, run_s: float, stops: float, leads: bool
) -> None:
    spot, steady = bill("spot", run_s, 4.0, stops), bill("on-demand", run_s, 10.0, 0.0)
    first = by_preference([spot, steady], Where(), machines, synchronous=True)[0]
    assert (first.consumption == "spot") == leads
    named = Where(consumption=("spot", "on-demand"))
    assert by_preference([spot, steady], named, machines, synchronous=True)[0].advised
