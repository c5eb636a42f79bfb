"""How often a cluster is interrupted: rates add up, and the record of the chip is the one that counts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog import load_catalog
from gpuyard.plan.exposure import Resilience, exposure, run_time

CATALOG = load_catalog()
A3, A2, H3 = (CATALOG.machine(name) for name in ("a3-megagpu-8g", "a2-ultragpu-8g", "h3-standard-88"))


def test_the_record_of_the_chip_or_the_default() -> None:
    assert exposure(A3, 1, "on-demand", CATALOG).records == ("llama-3",)
    assert exposure(A2, 1, "on-demand", CATALOG).records == ("rsc-1",)
    assert exposure(H3, 1, "on-demand", CATALOG).records == ("rsc-1",)  # an upper bound for a machine without GPUs
    assert exposure(CATALOG.machine("ct6e-standard-8t"), 1, "on-demand", CATALOG).records == ("llama-3",)
    assert exposure(A3, 1, "spot", CATALOG).records == ("llama-3", "spot-google-c3")


def test_failures_scale_with_chips_and_preemptions_with_machines() -> None:
    assert exposure(A3, 2048, "on-demand", CATALOG).mean_time_between_s / 3600 == pytest.approx(3.09, abs=0.01)
    assert exposure(A2, 2048, "on-demand", CATALOG).mean_time_between_s / 3600 == pytest.approx(1.8, rel=0.02)
    failures = 1 / exposure(A3, 10, "on-demand", CATALOG).mean_time_between_s
    both = 1 / exposure(A3, 10, "spot", CATALOG).mean_time_between_s
    assert (both - failures) * 86400 == pytest.approx(10 * 3 / 7.518)


def test_machines_that_do_not_wait_are_struck_one_by_one() -> None:
    alone = exposure(A3, 1, "spot", CATALOG)
    assert exposure(A3, 100, "spot", CATALOG, together=False) == alone
    assert exposure(A3, 100, "spot", CATALOG).mean_time_between_s == pytest.approx(alone.mean_time_between_s / 100)


def test_no_record_means_no_interruption() -> None:
    found = exposure(A3, 10, "spot", replace(CATALOG, interruptions=()))
    assert math.isinf(found.mean_time_between_s)
    assert found.records == ()


@given(st.integers(1, 4096), st.integers(1, 64), st.floats(3600.0, 1e7))
def test_more_machines_are_interrupted_more(machine_count: int, more: int, useful_s: float) -> None:
    few = run_time(useful_s, A3, machine_count, "spot", Resilience(), CATALOG)
    many = run_time(useful_s, A3, machine_count * more, "spot", Resilience(), CATALOG)
    assert many.expected_s >= few.expected_s * (1 - 1e-9)
