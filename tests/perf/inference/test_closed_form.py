"""Steady state as a closed form."""

from __future__ import annotations

import numpy as np
import pytest
from tests.perf.inference.serving_cases import served

from gpuyard.perf.inference.closed_form import Steady, steady_state


def steady(seqs: float, room: float = 1e9, prompt: float = 1000.0, output: float = 500.0) -> Steady:
    """One configuration."""
    row = served("llama-3.1-8b", "h100-sxm", "fp8").row()
    values = (np.array([value]) for value in (seqs, room, prompt, output))
    return steady_state(row[None], np.zeros(1, dtype=np.int64), *values)


def test_more_users_give_more_throughput_and_longer_tokens() -> None:
    few, many = steady(4.0), steady(128.0)
    assert many.output_tokens_per_s[0] > few.output_tokens_per_s[0]
    assert many.tpot_s[0] > few.tpot_s[0]


def test_cache_bounds_running_requests() -> None:
    bound, free = steady(256.0, 64.0), steady(64.0)
    assert bound.sequences[0] == 64.0
    assert bound.output_tokens_per_s[0] == pytest.approx(free.output_tokens_per_s[0])
    assert bound.ttft_s[0] > 10 * free.ttft_s[0]


def test_configurations_are_independent() -> None:
    rows = np.array([served("llama-3.1-8b", chip, "bf16").row() for chip in ("h100-sxm", "b200")])
    which = np.array([0, 1, 0])
    same = np.full(3, 32.0)
    found = steady_state(rows, which, same, np.full(3, 1e6), np.full(3, 1000.0), np.full(3, 300.0))
    assert found.tpot_s[0] == found.tpot_s[2] > found.tpot_s[1]
