"""CPU time per request: measured on a running service, and estimated from the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.app.run import serve_again
from gpuyard.app.serving_cost import request_cost_s
from gpuyard.errors import ExternalError

from .pipelines import FinishedRun


@pytest.mark.slow
def test_request_cost_is_cpu_time_of_the_server(iris: FinishedRun) -> None:
    endpoint = serve_again(iris.run)
    assert 1e-6 < request_cost_s(endpoint, "iris", 4, rounds=150) < 0.1
    with pytest.raises(ExternalError, match="404"):
        request_cost_s(endpoint, "no-such-model", 4, rounds=1)
    assert (
        request_cost_s(replace(endpoint, pid=2**22 + 1), "iris", 4, rounds=1) == 0.0
    )  # the process does not exist
