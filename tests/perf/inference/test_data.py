"""The data files of the serving model: constants, engines, chips, settings, errors."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from tests.perf.inference.serving_cases import served

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.perf.inference.calibration import PATH, read_calibration
from gpuyard.perf.inference.chip import read_variants, serving_chip
from gpuyard.perf.inference.error_bars import interval
from gpuyard.perf.inference.serving_engine import choose_engine, find_engine, read_engines

CATALOG = load_catalog()


def test_every_constant_lies_within_bounds_and_has_a_description() -> None:
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))["constant"]
    for name, cell in table.items():
        assert cell["low"] <= cell["value"] * 1.001, name
        assert cell["value"] <= cell["high"] * 1.001, name
        assert cell["meaning"], name
        assert cell["source"], name
    assert set(table) == set(read_calibration().values)


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


def test_chip_with_few_rows_has_widest_error() -> None:
    tpu, sure = (
        served("llama-3.1-8b", "tpu-v6e", engine="vllm-tpu"),
        served("llama-3.1-8b", "h100-sxm"),
    )
    assert interval("tpot", tpu.chip, tpu.engine).ratio > 1.0
    assert (
        interval("e2e", tpu.chip, tpu.engine).ratio == interval("tpot", tpu.chip, tpu.engine).ratio
    )
    assert interval("tpot", sure.chip, sure.engine).ratio < 0.5


def test_disaggregated_predictions_have_wider_error_bars() -> None:
    case = served("llama-3.1-8b", "h100-sxm")
    for metric in ("throughput", "tpot", "ttft", "e2e"):
        plain, apart = (interval(metric, case.chip, case.engine, pools) for pools in (False, True))  # type: ignore[arg-type]
        assert apart.ratio >= plain.ratio
    assert "disaggregated" in interval("ttft", case.chip, case.engine, disaggregated=True).note


def test_intervals_widen_with_fewer_runs() -> None:
    sure, unsure = (
        served("llama-3.1-8b", "h100-sxm", engine="trt-bench"),
        served("llama-3.1-8b", "tpu-v6e"),
    )
    well, ill = (
        interval("throughput", sure.chip, sure.engine),
        interval("throughput", unsure.chip, unsure.engine),
    )
    assert 0.02 < well.ratio < ill.ratio
    assert "nearest architecture" in ill.note


def test_import_does_not_load_numba() -> None:
    code = "import gpuyard.perf, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
