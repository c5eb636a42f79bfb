"""What a request costs, measured on a service that runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.app.capacity import request_cost_s
from gpuyard.app.run import serve_again
from gpuyard.errors import RefusedError

from .small import Done


def test_a_request_takes_cpu_time_of_the_server(iris: Done) -> None:
    endpoint = serve_again(iris.run)
    assert 1e-6 < request_cost_s(endpoint, "iris", 4, rounds=150) < 0.1
    with pytest.raises(RefusedError, match="404"):
        request_cost_s(endpoint, "no-such-model", 4, rounds=1)
    assert request_cost_s(replace(endpoint, pid=2**22 + 1), "iris", 4, rounds=1) == 0.0  # another process's time
