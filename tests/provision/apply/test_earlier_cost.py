"""Upper bound of the cost of earlier attempts."""

from __future__ import annotations

import pytest

from gpuyard.provision.apply.calls import plan_calls
from gpuyard.provision.apply.earlier_cost import WITHOUT_MACHINES, earlier_cost_usd
from gpuyard.provision.apply.journal import Event, JournalEntry
from gpuyard.provision.cost_bound import CostBound
from gpuyard.provision.validate.google import google_methods

from .requests import job_files

HOUR = 3600.0
STEPS, _ = plan_calls(job_files())
BOUND = CostBound(ttl_s=10 * HOUR, usd_per_hour=2.0, expected_usd=5.0, max_usd=20.0)
JOB = "10-job.json"


def cost(*events: tuple[Event, str, float], note: str = "") -> float:
    """Return the bound after events at hours."""
    entries = [
        JournalEntry(event=event, step=step, at_s=hours * HOUR, note=note if not step else "")
        for event, step, hours in events
    ]
    return earlier_cost_usd(entries, STEPS, BOUND)


def test_resource_that_exists_is_no_earlier_attempt() -> None:
    assert cost(("intent", JOB, 0), ("made", JOB, 1)) == 0


def test_resource_that_is_gone_counts_from_its_intent() -> None:
    assert cost(("intent", JOB, 0), ("made", JOB, 1), ("lost", JOB, 3)) == pytest.approx(6.0)


def test_ttl_bounds_the_time_of_a_machine() -> None:
    assert cost(("intent", JOB, 0), ("made", JOB, 1), ("lost", JOB, 99)) == pytest.approx(20.0)


def test_failed_creation_costs_nothing() -> None:
    events: tuple[tuple[Event, str, float], ...] = (
        ("intent", JOB, 0), ("failed", JOB, 5), ("intent", JOB, 5), ("removed", JOB, 6),
    )  # fmt: skip
    assert cost(*events) == pytest.approx(2.0)


def test_machines_of_two_steps_are_counted_once_per_time() -> None:
    events: tuple[tuple[Event, str, float], ...] = (
        ("intent", JOB, 0), ("intent", "20-run.json", 1), ("lost", JOB, 2),
        ("removed", "20-run.json", 3),
    )  # fmt: skip
    assert cost(*events) == pytest.approx(6.0)


def test_destroy_ends_what_is_counted() -> None:
    events: tuple[tuple[Event, str, float], ...] = (
        ("intent", JOB, 0), ("lost", JOB, 2), ("begin", "", 3), ("intent", JOB, 4),
        ("lost", JOB, 5),
    )  # fmt: skip
    assert cost(*events) == pytest.approx(6.0)
    assert cost(*events, note="destroy") == pytest.approx(2.0)


def test_types_without_machines_exist_in_the_apis() -> None:
    collections = {name.rsplit(".", 1)[0] for name in google_methods()}
    assert set(WITHOUT_MACHINES) <= collections
