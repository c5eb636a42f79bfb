"""Interruption records: one default per cause, and the rates of the sources."""

from __future__ import annotations

import pytest

from gpuyard.catalog.interruptions import Interruption
from gpuyard.catalog.load import load_catalog

CATALOG = load_catalog()
ROWS = {record.name: record for record in CATALOG.interruptions}
DAY_S = 86400.0


@pytest.mark.parametrize("record", CATALOG.interruptions, ids=lambda record: record.name)
def test_interruption_record_has_positive_counts(record: Interruption) -> None:
    assert record.events_count > 0
    assert record.observed_s > 0
    assert record.mean_time_between_s > 60.0
    assert record.cause == "preemption" or record.restart_s is not None


def test_failures_have_one_default_and_preemptions_one_per_provider() -> None:
    assert [record.name for record in CATALOG.interruptions if record.default] == [
        "llama-3",
        "spot-google-c3",
        "spot-aws-v100",
    ]


def test_mean_time_between_interruptions() -> None:
    assert ROWS["llama-3"].mean_time_between_s / 3600 == pytest.approx(50_677, abs=1)
    assert DAY_S / ROWS["spot-google-stated"].mean_time_between_s == pytest.approx(0.15)
    assert DAY_S / ROWS["spot-google-c3"].mean_time_between_s == pytest.approx(0.4, rel=0.01)


def test_default_preemption_rate_is_highest_of_google_sources() -> None:
    google = [record for record in CATALOG.interruptions if record.provider == "google"]
    assert min(google, key=lambda record: record.mean_time_between_s).default
