"""Interruption risk: rates add up, and the record of the chip is used."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.plan.interruptions import Resilience, interruption_risk, run_time

CATALOG = load_catalog()
A3, A2, H3 = (
    CATALOG.machine(name) for name in ("a3-megagpu-8g", "a2-ultragpu-8g", "h3-standard-88")
)


def test_record_of_chip_or_default_is_used() -> None:
    assert interruption_risk(A3, 1, "on-demand", CATALOG).records == ("llama-3",)
    assert interruption_risk(A2, 1, "on-demand", CATALOG).records == ("rsc-1",)
    assert interruption_risk(H3, 1, "on-demand", CATALOG).records == (
        "rsc-1",
    )  # an upper bound for a machine without GPUs
    assert interruption_risk(
        CATALOG.machine("ct6e-standard-8t"), 1, "on-demand", CATALOG
    ).records == ("llama-3",)
    assert interruption_risk(A3, 1, "spot", CATALOG).records == ("llama-3", "spot-google-c3")


def test_failures_scale_with_chips_preemptions_with_machines() -> None:
    assert interruption_risk(
        A3, 2048, "on-demand", CATALOG
    ).mean_time_between_s / 3600 == pytest.approx(3.09, abs=0.01)
    assert interruption_risk(
        A2, 2048, "on-demand", CATALOG
    ).mean_time_between_s / 3600 == pytest.approx(1.8, rel=0.02)
    failures = 1 / interruption_risk(A3, 10, "on-demand", CATALOG).mean_time_between_s
    both = 1 / interruption_risk(A3, 10, "spot", CATALOG).mean_time_between_s
    assert (both - failures) * 86400 == pytest.approx(10 * 3 / 7.518)


def test_independent_machines_are_interrupted_separately() -> None:
    alone = interruption_risk(A3, 1, "spot", CATALOG)
    assert interruption_risk(A3, 100, "spot", CATALOG, together=False) == alone
    assert interruption_risk(A3, 100, "spot", CATALOG).mean_time_between_s == pytest.approx(
        alone.mean_time_between_s / 100
    )


def test_no_record_means_no_interruptions() -> None:
    found = interruption_risk(A3, 10, "spot", replace(CATALOG, interruptions=()))
    assert math.isinf(found.mean_time_between_s)
    assert found.records == ()


@given(st.integers(1, 4096), st.integers(1, 64), st.floats(3600.0, 1e7))
def test_larger_cluster_is_interrupted_more_often(
    machine_count: int, more: int, useful_s: float
) -> None:
    few = run_time(useful_s, A3, machine_count, "spot", Resilience(), CATALOG)
    many = run_time(useful_s, A3, machine_count * more, "spot", Resilience(), CATALOG)
    assert many.expected_s >= few.expected_s * (1 - 1e-9)


def test_high_end_of_spot_accelerators_is_the_highest_rate_of_the_catalog() -> None:
    trace = next(row for row in CATALOG.interruptions if row.name == "spot-aws-v100")
    high = interruption_risk(A3, 1, "spot", CATALOG, bound="high")
    assert high.mean_time_between_s < trace.mean_time_between_s
    on_cpus = interruption_risk(H3, 1, "spot", CATALOG, bound="high")
    assert on_cpus.mean_time_between_s > 2 * trace.mean_time_between_s
