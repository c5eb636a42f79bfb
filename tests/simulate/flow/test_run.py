"""The event loop of the flow engine, beside one that renews every rate at every event."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from gpuyard.simulate.flow.fill import max_min_rates
from gpuyard.simulate.flow.problem import Problem
from gpuyard.simulate.flow.run import advance, started

Floats = npt.NDArray[np.float64]


def drawn(seed: int, flows: int = 60, links: int = 12) -> Problem:
    """Flows of unlike sizes, starts and weights over a few links of unlike rates."""
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(links, size=rng.integers(1, 4), replace=False)) for _ in range(flows)]
    link = np.concatenate(rows).astype(np.int64)
    return Problem(
        entry_index=np.cumsum([0, *map(len, rows)]).astype(np.int64),
        entry_link=link,
        entry_weight=rng.choice([0.5, 1.0, 2.0], size=len(link)),
        capacity_bytes_per_s=rng.choice([1.0, 2.0, 5.0, 20.0], size=links),
        size_bytes=rng.integers(1, 100, size=flows).astype(np.float64),
        start_s=np.where(rng.random(flows) < 0.7, 0.0, rng.random(flows) * 50),
        latency_s=np.zeros(flows),
        after_index=np.zeros(flows + 1, dtype=np.int64),
        after=np.zeros(0, dtype=np.int64),
    )


def by_hand(problem: Problem) -> Floats:
    """When each flow is sent; rates of all flows under way anew at every start and end."""
    left, sent_s, now_s = problem.size_bytes.copy(), np.full(problem.flow_count, np.inf), 0.0
    while not np.isfinite(sent_s).all():
        live = np.flatnonzero(np.isinf(sent_s) & (problem.start_s <= now_s))
        rates = np.zeros(problem.flow_count)
        if len(live):
            spans = [slice(problem.entry_index[flow], problem.entry_index[flow + 1]) for flow in live]
            rates[live] = max_min_rates(
                np.cumsum([0, *(span.stop - span.start for span in spans)]).astype(np.int64),
                np.concatenate([problem.entry_link[span] for span in spans]),
                np.concatenate([problem.entry_weight[span] for span in spans]),
                problem.capacity_bytes_per_s,
            )
        ends = now_s + np.divide(left, rates, out=np.full(len(left), np.inf), where=rates > 0)
        starts = problem.start_s[problem.start_s > now_s]
        next_s = min(ends.min(), starts.min() if len(starts) else np.inf)
        left -= rates * (next_s - now_s)
        sent_s[(ends <= next_s * (1 + 1e-12)) & np.isinf(sent_s)] = next_s
        now_s = next_s
    return sent_s


@pytest.mark.parametrize("seed", range(12))
def test_flows_end_as_if_every_rate_were_renewed(seed: int) -> None:
    problem = drawn(seed)
    state = started(problem)
    advance(problem, state, 0.0, np.inf, 0.0)
    np.testing.assert_allclose(state.received_s, by_hand(problem), rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_stop_on_the_way_changes_nothing(seed: int) -> None:
    problem = drawn(seed)
    whole, halted = started(problem), started(problem)
    advance(problem, whole, 0.0, np.inf, 0.0)
    for begin_s, end_s in ((0.0, 7.0), (7.0, 30.0), (30.0, np.inf)):
        advance(problem, halted, begin_s, end_s, 0.0)
    np.testing.assert_allclose(halted.received_s, whole.received_s, rtol=1e-9)


def test_ends_taken_together_are_early_by_no_more_than_the_step() -> None:
    problem = drawn(99)
    exact, hasty = started(problem), started(problem)
    advance(problem, exact, 0.0, np.inf, 0.0)
    advance(problem, hasty, 0.0, np.inf, 0.01)
    assert hasty.fills[0] < exact.fills[0]
    assert hasty.received_s.max() == pytest.approx(exact.received_s.max(), rel=0.05)
