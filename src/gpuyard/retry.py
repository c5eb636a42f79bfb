"""The retry policy: how often a failed operation is attempted, with exponential backoff."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gpuyard.errors import ExternalError

T = TypeVar("T")


# The wait is a uniform random share of a limit that doubles ("full jitter"), so that clients that
# failed together do not come back together.
# Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a failed operation is attempted again, and how long to wait in between."""

    attempts: int = 6
    first_s: float = 0.5
    max_s: float = 300.0

    def backoff_s(self, failures: int) -> float:
        """Return the longest wait after N failures: it doubles each time, up to `max_s`."""
        return min(self.max_s, self.first_s * 2.0 ** min(max(failures - 1, 0), 32))

    def wait_s(self, failures: int, retry_after_s: float | None = None) -> float:
        """Return how long to wait after N failures."""
        if retry_after_s is not None:
            return min(self.max_s, retry_after_s)
        return random.uniform(0.0, self.backoff_s(failures))

    def retry_after_s(self, _error: ExternalError) -> float | None:
        """Return the wait that a failure itself asks for."""
        return None

    def run(
        self,
        attempt: Callable[[], T],
        retries: Callable[[ExternalError], bool],
        sleep: Callable[[float], None] = time.sleep,
    ) -> T:
        """Return the result of the first attempt that succeeds; raise the last error."""
        for failures in range(1, self.attempts):
            try:
                return attempt()
            except ExternalError as error:
                if not retries(error):
                    raise
                retry_after_s = self.retry_after_s(error)
            sleep(self.wait_s(failures, retry_after_s))
        return attempt()
