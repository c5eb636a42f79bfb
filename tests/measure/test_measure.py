"""Benchmarks of this host: plausible values with their spread."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.errors import ExternalError
from gpuyard.measure import compute, storage
from gpuyard.measure.compute import memory_rates
from gpuyard.measure.host import cores_count, memory_bytes, processor, versions
from gpuyard.measure.storage import storage_rates
from gpuyard.measure.timing import timed


def test_timed_repeats_the_call_after_a_warm_up() -> None:
    calls: list[int] = []
    timing = timed(lambda: calls.append(1), 0.0)
    assert timing.count == 5
    assert len(calls) == 6  # one warm-up call
    assert timing.median_s >= 0


def test_host_reports_processor_cores_memory_and_versions() -> None:
    assert processor()
    assert cores_count() >= 1
    assert memory_bytes() > 1e8
    assert dict(versions())["python"].startswith("3.")


def test_gemm_memory_and_storage_rates_are_positive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compute, "SIDES", (16, 64))
    monkeypatch.setattr(compute, "MEMORY_BYTES", (1 << 18, 1 << 20))
    monkeypatch.setattr(compute, "has", lambda name: name == "numpy")
    monkeypatch.setattr(storage, "SIZE_BYTES", 1 << 20)
    monkeypatch.setattr(storage, "BLOCK_BYTES", 1 << 18)
    gemms = list(compute.gemm_rates())
    assert {(rate.dtype, rate.size) for rate in gemms} == {
        (d, s) for d in ("float32", "float64") for s in (16.0, 64.0)
    }
    assert all(rate.value > 1e6 for rate in gemms)
    assert [(rate.size, rate.value > 1e6) for rate in memory_rates()] == [
        (1 << 18, True),
        (1 << 20, True),
    ]
    assert {rate.kind for rate in storage_rates(tmp_path)} == {"storage-write", "storage-read"}
    assert list(tmp_path.iterdir()) == []


def test_storage_rates_raise_external_error_when_folder_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="MiB free"):
        list(storage_rates(tmp_path / "none"))
