"""Points that a user measured shift the constants that they inform."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from gpuyard.calibrate.serving_points import calibrate_serving, interval_ratio
from gpuyard.calibrate.vllm_benchmark import (
    MeasuredServing,
    ServingSetup,
    is_vllm_benchmark,
    read_vllm_benchmark,
)
from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.simulate.serving.predict_published import predict

CATALOG = load_catalog()
RESULT: dict[str, object] = {
    "backend": "vllm",
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "num_prompts": 160,
    "completed": 160,
    "request_rate": "inf",
    "max_concurrency": 16,
    "total_input_tokens": 160 * 1024,
    "total_output_tokens": 160 * 256,
    "output_throughput": 2000.0,
    "mean_ttft_ms": 100.0,
    "mean_tpot_ms": 8.0,
    "chip": "h100-sxm",
    "version": "0.19.0",
}


def point(
    data: Mapping[str, object] = RESULT, setup: ServingSetup | None = None
) -> MeasuredServing:
    """A result read as a point."""
    return read_vllm_benchmark(data, "bench.json", setup or ServingSetup(), CATALOG)


def slower(factor: float) -> MeasuredServing:
    """A result that is slower than predicted in decode, by a factor."""
    shipped = predict(point().case, read_calibration())
    assert not isinstance(shipped, Infeasible)
    measured = {
        "output_throughput": shipped.output_tokens_per_s / factor,
        "mean_tpot_ms": 1e3 * shipped.tpot_s * factor,
        "mean_ttft_ms": 1e3 * shipped.ttft_s,
    }
    return point({**RESULT, **measured})


def test_a_result_is_recognised_and_read() -> None:
    assert is_vllm_benchmark(RESULT)
    assert not is_vllm_benchmark({"model_id": "x"})
    case = point().case
    assert (case.load.kind, case.load.users, case.load.prompt_tokens) == ("closed", 16, 1024)
    assert case.engine.name == "vllm-async"
    rate = point({**RESULT, "request_rate": 4.0, "max_concurrency": None}).case.load
    assert (rate.kind, rate.rate_per_s) == ("open", 4.0)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"chip": ""}, "chip"),
        ({"model_id": "nobody/abacus"}, "model"),
        ({"mean_ttft_ms": 0}, "mean_ttft_ms"),
        ({"weights": "fp7"}, "weights"),
    ],
)
def test_what_a_file_lacks_is_an_error_with_its_place(
    change: dict[str, object], place: str
) -> None:
    with pytest.raises(InputError, match=place):
        point({**RESULT, **change})


def test_a_slower_decode_slows_the_constants_of_decode() -> None:
    shift = calibrate_serving([slower(1.3)], read_calibration())
    (fit,) = shift.points
    before, after = (abs(np.log(side[1] / fit.measured[1])) for side in (fit.before, fit.after))
    assert after < 0.6 * before
    factors = {group.name: group.factor for group in shift.shifts}
    assert factors["memory bandwidth"] < 1.0 or factors["launch and host time"] > 1.0
    assert all(group.error > 0.0 for group in shift.shifts)
    known = shift.interval("tpot", point().case)
    assert known.low < 0.0 < known.high


def test_a_point_as_predicted_moves_nothing() -> None:
    shift = calibrate_serving([slower(1.0)], read_calibration())
    assert all(group.factor == pytest.approx(1.0, abs=1e-6) for group in shift.shifts)


def test_more_points_narrow_the_interval() -> None:
    widths = [interval_ratio(count) for count in (0, 1, 3, 100)]
    assert widths[0] == pytest.approx(1.0)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == pytest.approx(np.sqrt(0.55), rel=0.05)


def test_points_of_two_chips_are_refused() -> None:
    with pytest.raises(InputError, match="several chips"):
        calibrate_serving([point(), point({**RESULT, "chip": "b200"})], read_calibration())
