"""Lengths and arrivals of requests."""

from __future__ import annotations

import numpy as np
import pytest

from gpuyard.simulate.serving.load import at_rate, drifted, fixed, lognormal, uniform


def test_uniform_lengths_lie_between_their_bounds() -> None:
    found = uniform(5000, 1000, 500, 0.8, np.random.default_rng(0))
    assert found.prompt_tokens.min() >= 800
    assert found.prompt_tokens.max() <= 1000
    assert found.output_tokens.mean() == pytest.approx(450, rel=0.01)


def test_lognormal_lengths_keep_their_mean_when_cut() -> None:
    found = lognormal(20000, 294, 290, (0.8, 0.9), np.random.default_rng(0), (1024.0, 1024.0))
    assert found.prompt_tokens.mean() == pytest.approx(294, rel=0.01)
    assert found.output_tokens.mean() == pytest.approx(290, rel=0.01)
    assert found.output_tokens.max() <= 1024
    assert found.output_tokens.min() >= 1


def test_arrivals_have_the_rate_and_the_burstiness() -> None:
    load, rng = fixed(20000, 10, 10), np.random.default_rng(0)
    smooth, burst = at_rate(load, 5.0, rng), at_rate(load, 5.0, rng, burstiness=0.25)
    for found in (smooth, burst):
        assert found.arrived_s[-1] == pytest.approx(4000, rel=0.05)
    spread = [np.diff(found.arrived_s).std() * 5.0 for found in (smooth, burst)]
    assert spread == pytest.approx([1.0, 2.0], rel=0.1)


def test_prefix_hit_ratio_applies_to_each_prompt() -> None:
    assert (fixed(3, 100, 1, hit_ratio=0.25).cached_tokens == 25).all()


def test_drifted_outputs_are_a_little_shorter() -> None:
    found = drifted(fixed(500, 100, 50), 2, np.random.default_rng(0))
    assert set(found.output_tokens) == {48, 49, 50}
    assert (drifted(fixed(5, 100, 1), 2, np.random.default_rng(0)).output_tokens == 1).all()
