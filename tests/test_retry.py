"""The retry policy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.retry import RetryPolicy


@given(first_s=st.floats(0.01, 100), failures=st.integers(1, 2000))
def test_wait_grows_up_to_a_limit(first_s: float, failures: int) -> None:
    policy = RetryPolicy(first_s=first_s)
    limits = policy.backoff_s(failures), policy.backoff_s(failures + 1)
    assert policy.backoff_s(1) == first_s
    assert limits[0] <= limits[1] <= policy.max_s
    assert 0.0 <= policy.wait_s(failures) <= limits[0]
    assert policy.wait_s(failures, retry_after_s=1e9) == policy.max_s
