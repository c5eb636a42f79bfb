"""MLPerf servers: latencies at the stated rate, and runs that no rate keeps within the limits."""

from __future__ import annotations

from tests.simulate.serving.pools import pool

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.case import BenchmarkLoad, Ceiling
from gpuyard.simulate.serving.load import fixed
from gpuyard.simulate.serving.mlperf_server import ServerRun, run_server


def served(rate_per_s: float, ceiling: Ceiling) -> ServerRun:
    """A run of 2,000 equal requests."""
    load = BenchmarkLoad(
        kind="mlperf-server",
        requests=2000,
        prompt_tokens=200,
        output_tokens=50,
        rate_per_s=rate_per_s,
        ceiling=ceiling,
    )
    result = run_server(load, fixed(2000, 200, 50), pool(sequences=16), 1.0, 0)
    assert not isinstance(result, Infeasible)
    return result


def test_a_lower_stated_rate_has_shorter_queues_and_the_same_highest_rate() -> None:
    limits = Ceiling(ttft_s=0.5)
    unstated = served(0.0, limits)
    quiet = served(0.2 * unstated.rate_per_s, limits)
    assert quiet.rate_per_s == unstated.rate_per_s
    assert quiet.ttft_s < unstated.ttft_s
    assert quiet.tpot_s <= unstated.tpot_s


def test_a_rate_above_the_capacity_does_not_overload_a_valid_run() -> None:
    limits = Ceiling(ttft_s=0.5)
    assert served(1e4, limits).ttft_s <= served(0.0, limits).ttft_s <= 0.5


def test_limits_that_no_rate_meets_give_a_stable_queue() -> None:
    run = served(5.0, Ceiling(tpot_s=1e-6))
    assert run.rate_per_s > 0.0
    assert run.ttft_s < 10.0


def test_the_stated_rate_says_nothing_on_a_chip_without_fitted_runs() -> None:
    load = BenchmarkLoad(
        kind="mlperf-server",
        requests=2000,
        prompt_tokens=200,
        output_tokens=50,
        rate_per_s=2.0,
        ceiling=Ceiling(ttft_s=0.5),
    )
    fitted, other = (
        run_server(load, fixed(2000, 200, 50), pool(sequences=16), 1.0, 0, fitted_chip=known)
        for known in (True, False)
    )
    assert not isinstance(fitted, Infeasible)
    assert not isinstance(other, Infeasible)
    assert fitted.tpot_s < other.tpot_s
    assert fitted.ttft_s == other.ttft_s
