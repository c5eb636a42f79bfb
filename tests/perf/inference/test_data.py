"""The data files of the serving model: constants, engines, chips, settings, errors."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest
from tests.perf.inference.serving_cases import served

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.perf.inference.calibration import (
    ChipQuantity,
    EngineQuantity,
    LinkQuantity,
    read_calibration,
    read_effects,
)
from gpuyard.perf.inference.chip import chip_named, read_variants, serving_chip
from gpuyard.perf.inference.constants import read_constants
from gpuyard.perf.inference.error_bars import Metric, interval, level_of
from gpuyard.perf.inference.serving_engine import choose_engine, find_engine, read_engines

CATALOG = load_catalog()


def test_constants_are_inside_bounds_and_described() -> None:
    values = read_calibration().values
    for constant in read_constants():
        assert constant.meaning, constant.name
        assert constant.source, constant.name
        value = values[constant.name]
        if constant.fitted:
            assert constant.low * 1.001 < value < constant.high * 0.999, constant.name
        assert constant.low <= constant.prior <= constant.high, constant.name
    assert {constant.name for constant in read_constants()} == set(values)


def test_effects_are_few_and_have_standard_errors() -> None:
    effects = read_effects()
    known = {effect.name for constant in read_constants() for effect in constant.effects}
    assert len(effects) <= 120
    assert {effect.name for effect in effects} <= known
    assert all(effect.error > 0.0 for effect in effects)


def test_constants_are_priors_times_effects() -> None:
    factors = {effect.name: effect.factor for effect in read_effects()}
    for constant in read_constants():
        if constant.fitted:
            value = constant.prior
            for effect in constant.effects:
                value *= factors.get(effect.name, 1.0)
            assert read_calibration()[constant.name] == pytest.approx(value), constant.name


def test_quantities_have_typed_names() -> None:
    kinds = {variant.kernels for variant in read_variants()}
    names = {constant.name for constant in read_constants()}
    of_chip = {name.split(".", 1)[1] for name in names if name.split(".")[0] in kinds}
    matmuls = {name for name in of_chip if name.startswith(("gemm.", "experts."))}
    assert of_chip - matmuls == set(get_args(ChipQuantity))
    of_engine = {name.split(".", 1)[1] for name in names if name.startswith("vllm-v1.")}
    assert of_engine == set(get_args(EngineQuantity))
    of_link = {name.split(".", 1)[1] for name in names if name.startswith("nvlink4.")}
    assert of_link == set(get_args(LinkQuantity))


def test_siblings_share_effects() -> None:
    effects = {c.name: {e.name for e in c.effects} for c in read_constants()}
    assert effects["hopper.stream"] & effects["h200.stream"] == {
        "chips.stream",
        "hopper-chips.stream",
    }
    assert len(effects["vllm-v0.host_us"] & effects["vllm-async.host_us"]) == 2
    assert not effects["memory.driver_gb"]


def test_engines_of_one_code_share_device_time_and_not_their_front_ends() -> None:
    effects = {c.name: {e.name for e in c.effects} for c in read_constants()}
    assert effects["trt-torch.eager_layer_us"] == effects["trt-serve-rc.eager_layer_us"]
    assert effects["trt-torch.request_us"] != effects["trt-serve-rc.request_us"]


def test_every_engine_has_its_overheads() -> None:
    names = read_calibration().values
    for engine in read_engines():
        assert f"{engine.name}.host_us" in names
        assert 0.0 < engine.memory_ratio <= 1.0
        assert engine.source


@pytest.mark.parametrize(
    ("engine", "version", "name"),
    [
        ("vLLM", "0.6.3.post2", "vllm-v0"),
        ("vLLM", "0.12.0", "vllm-v1"),
        ("vLLM", "0.19.0", "vllm-async"),
        ("SGLang", "0.5.9", "sglang"),
        ("TensorRT-LLM", "0.10.0", "trt-stream"),
        ("TensorRT-LLM", "0.12.0", "trt-bench"),
        ("TensorRT-LLM", "0.15.0", "trt-bench-15"),
        ("TensorRT-LLM", "0.21 (PyTorch backend)", "trt-torch"),
        ("TensorRT-LLM", "1.0 (PyTorch backend)", "trt-torch-1"),
        ("TensorRT-LLM", "1.2 (PyTorch backend)", "trt-torch-2"),
        ("vLLM (TPU)", "", "vllm-tpu"),
    ],
)
def test_releases_belong_to_eras(engine: str, version: str, name: str) -> None:
    found = choose_engine(engine, version)
    assert found is not None
    assert found.name == name


def test_unknown_engine_suggests_nearest() -> None:
    with pytest.raises(InputError, match="vllm-v1"):
        find_engine("vllm-v2")


def test_every_variant_is_a_chip_of_the_catalog() -> None:
    names = {chip.name for chip in CATALOG.chips}
    for variant in read_variants():
        assert variant.chip in names
        assert f"{variant.kernels}.stream" in read_calibration().values


def test_chips_of_the_catalog_that_serve_are_known() -> None:
    assert serving_chip(CATALOG.chip("h100-sxm")) is not None
    assert serving_chip(CATALOG.chip("grace")) is None


def test_disaggregated_predictions_have_wider_error_bars() -> None:
    case = served("llama-3.1-8b", "h100-sxm")
    plain, pools = (interval("ttft", case.chip, case.engine, split) for split in (False, True))
    assert pools.ratio > plain.ratio
    assert "disaggregated" in pools.note


def test_intervals_widen_with_distance_from_runs() -> None:
    sure, unsure = (
        served("llama-3.1-8b", "h100-sxm", engine="trt-bench"),
        served("llama-3.1-8b", "tpu-v6e"),
    )
    well, ill = (
        interval("throughput", sure.chip, sure.engine),
        interval("throughput", unsure.chip, unsure.engine),
    )
    assert 0.02 < well.ratio < ill.ratio
    assert well.around(1.0).high < ill.around(1.0).high
    assert "nearest architecture" in ill.note
    assert level_of(unsure.chip, unsure.engine)[0] == "far"
    other = interval("throughput", sure.chip, sure.engine, unmeasured="none is like it")
    assert other.high == pytest.approx(1.5 * well.high)
    assert other.note == "none is like it"


def test_every_interval_contains_its_prediction() -> None:
    for variant in read_variants():
        chip = chip_named(variant.name, CATALOG)
        assert chip is not None
        for engine in read_engines():
            for metric in get_args(Metric):
                known = interval(metric, chip, engine).around(2.0)
                assert known.low < 2.0 < known.high


def test_import_does_not_load_numba() -> None:
    code = "import gpuyard.perf, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
