"""The highest rate that meets a service level."""

from __future__ import annotations

import numpy as np
from tests.simulate.serving.pools import pool

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.case import Ceiling
from gpuyard.simulate.serving.load import fixed
from gpuyard.simulate.serving.search import highest_rate


def rate(ttft_s: float, tpot_s: float, replicas: int = 1) -> float:
    """The rate for limits."""
    found = highest_rate(
        fixed(2000, 200, 50),
        pool(sequences=16, replicas=replicas),
        Ceiling(ttft_s=ttft_s, tpot_s=tpot_s),
        np.random.default_rng(0),
    )
    assert not isinstance(found, Infeasible)
    return found[0]


def test_tighter_limits_allow_less() -> None:
    assert rate(10.0, 1.0) > rate(0.05, 1.0) > 0.0
    assert rate(10.0, 0.001) == 0.0


def test_end_to_end_latency_may_have_a_limit() -> None:
    load, own = fixed(2000, 200, 50), pool(sequences=16)
    long, short, none = (
        highest_rate(load, own, Ceiling(e2e_s=s), np.random.default_rng(0))
        for s in (20.0, 1.0, 0.1)
    )
    assert not isinstance(long, Infeasible)
    assert not isinstance(short, Infeasible)
    assert not isinstance(none, Infeasible)
    assert long[0] > short[0] > 0.0
    assert none[0] == 0.0  # fifty steps of 10 ms


def test_more_replicas_serve_more() -> None:
    assert 1.7 < rate(0.5, 0.05, 2) / rate(0.5, 0.05) < 2.6


def test_even_arrivals_allow_more() -> None:
    load, own = fixed(2000, 200, 50), pool(sequences=16)
    found = [
        highest_rate(load, own, Ceiling(ttft_s=0.1), np.random.default_rng(0), burstiness=b)
        for b in (1.0, 16.0)
    ]
    poisson, even = (each[0] for each in found if not isinstance(each, Infeasible))
    assert even > 1.02 * poisson


def test_model_that_does_not_fit_is_infeasible() -> None:
    found = highest_rate(
        fixed(2, 10_000, 50), pool(blocks=4), Ceiling(ttft_s=1.0), np.random.default_rng(0)
    )
    assert isinstance(found, Infeasible)
