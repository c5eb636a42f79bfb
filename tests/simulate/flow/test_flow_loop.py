"""The event loop of the flow engine, next to one that computes every rate at every event."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from gpuyard.simulate.flow.flow_loop import advance, initial_state
from gpuyard.simulate.flow.max_min import max_min_rates
from gpuyard.simulate.flow.problem import FlowProblem, LinkShares

Floats = npt.NDArray[np.float64]


def random_problem(seed: int, flows: int = 60, links: int = 12) -> FlowProblem:
    """Flows of different sizes, starts and shares over a few links of different rates."""
    rng = np.random.default_rng(seed)
    rows = [
        np.sort(rng.choice(links, size=rng.integers(1, 4), replace=False)) for _ in range(flows)
    ]
    link = np.concatenate(rows).astype(np.int64)
    return FlowProblem(
        shares=LinkShares(
            offset=np.cumsum([0, *map(len, rows)]).astype(np.int64),
            link=link,
            share=rng.choice([0.5, 1.0, 2.0], size=len(link)),
        ),
        capacity_bytes_per_s=rng.choice([1.0, 2.0, 5.0, 20.0], size=links),
        size_bytes=rng.integers(1, 100, size=flows).astype(np.float64),
        start_s=np.where(rng.random(flows) < 0.7, 0.0, rng.random(flows) * 50),
        latency_s=np.zeros(flows),
        after_index=np.zeros(flows + 1, dtype=np.int64),
        after=np.zeros(0, dtype=np.int64),
    )


def sent_by_full_updates(problem: FlowProblem) -> Floats:
    """When each flow is sent if all rates are computed at every start and completion."""
    shares = problem.shares
    left, sent_s, now_s = problem.size_bytes.copy(), np.full(problem.flow_count, np.inf), 0.0
    while not np.isfinite(sent_s).all():
        live = np.flatnonzero(np.isinf(sent_s) & (problem.start_s <= now_s))
        rates = np.zeros(problem.flow_count)
        if len(live):
            spans = [slice(shares.offset[flow], shares.offset[flow + 1]) for flow in live]
            of_live = LinkShares(
                offset=np.cumsum([0, *(span.stop - span.start for span in spans)]).astype(np.int64),
                link=np.concatenate([shares.link[span] for span in spans]),
                share=np.concatenate([shares.share[span] for span in spans]),
            )
            rates[live] = max_min_rates(of_live, problem.capacity_bytes_per_s)
        ends = now_s + np.divide(left, rates, out=np.full(len(left), np.inf), where=rates > 0)
        starts = problem.start_s[problem.start_s > now_s]
        next_s = min(ends.min(), starts.min() if len(starts) else np.inf)
        left -= rates * (next_s - now_s)
        sent_s[(ends <= next_s * (1 + 1e-12)) & np.isinf(sent_s)] = next_s
        now_s = next_s
    return sent_s


@pytest.mark.parametrize("seed", range(12))
def test_partial_rate_updates_equal_full_updates(seed: int) -> None:
    problem = random_problem(seed)
    state = initial_state(problem)
    advance(problem, state, 0.0, np.inf, 0.0)
    np.testing.assert_allclose(state.received_s, sent_by_full_updates(problem), rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_stops_between_events_change_nothing(seed: int) -> None:
    problem = random_problem(seed)
    whole, halted = initial_state(problem), initial_state(problem)
    advance(problem, whole, 0.0, np.inf, 0.0)
    for begin_s, end_s in ((0.0, 7.0), (7.0, 30.0), (30.0, np.inf)):
        advance(problem, halted, begin_s, end_s, 0.0)
    np.testing.assert_allclose(halted.received_s, whole.received_s, rtol=1e-9)


def test_completions_in_a_quantum_need_fewer_rate_updates() -> None:
    problem = random_problem(99)
    exact, coarse = initial_state(problem), initial_state(problem)
    exact_fills = advance(problem, exact, 0.0, np.inf, 0.0)
    coarse_fills = advance(problem, coarse, 0.0, np.inf, 0.01)
    assert coarse_fills < exact_fills
    assert coarse.received_s.max() == pytest.approx(exact.received_s.max(), rel=0.05)
