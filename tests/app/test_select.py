"""The price of predictions on planned hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.app.select import serving_price
from gpuyard.learn.select import Footprint

EXAMPLES = Path(__file__).parents[2] / "examples"


def taken(batch_latency_s: float) -> Footprint:
    """A model that takes so long for 32 rows."""
    return Footprint(
        latency_s=1e-3,
        latency_p99_s=1e-3,
        batch_latency_s=batch_latency_s,
        batch_rows=32,
        memory_bytes=1e8,
        size_bytes=1e6,
    )


def test_a_model_that_takes_twice_as_long_costs_twice_as_much() -> None:
    price = serving_price(EXAMPLES / "pretraining.yaml")
    assert 0 < price(taken(0.032)) < 100.0  # a thousand seconds of a vCPU
    assert price(taken(0.064)) == pytest.approx(2 * price(taken(0.032)))
