"""How long to wait before trying again."""

from __future__ import annotations

import random

__all__ = ["MOST_S", "backoff_s", "jittered_s"]

MOST_S = 300.0


def backoff_s(first_s: float, failures: int) -> float:
    """The wait after that many failures: doubles each time, up to five minutes."""
    return min(MOST_S, first_s * 2.0 ** min(max(failures - 1, 0), 32))


def jittered_s(first_s: float, failures: int, rng: random.Random) -> float:
    """The wait spread over its upper half, so that many clients do not come back at once."""
    return backoff_s(first_s, failures) * rng.uniform(0.5, 1.0)
