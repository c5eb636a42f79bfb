"""What is measured of a machine: numbers that make sense, with their spread."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.errors import RefusedError
from gpuyard.measure import (
    compute,
    cores_count,
    memory_bytes,
    memory_rates,
    processor,
    storage,
    storage_rates,
    timed,
    versions,
)


def test_the_median_of_repeated_calls() -> None:
    calls: list[int] = []
    found = timed(lambda: calls.append(1), 0.0)
    assert found.count == 5
    assert len(calls) == 6  # one that is not counted
    assert found.median_s >= 0


def test_this_machine() -> None:
    assert processor()
    assert cores_count() >= 1
    assert memory_bytes() > 1e8
    assert dict(versions())["python"].startswith("3.")


def test_rates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compute, "SIDES", (16, 64))
    monkeypatch.setattr(compute, "MEMORY_BYTES", (1 << 18, 1 << 20))
    monkeypatch.setattr(compute, "has", lambda name: name == "numpy")
    monkeypatch.setattr(storage, "SIZE_BYTES", 1 << 20)
    monkeypatch.setattr(storage, "BLOCK_BYTES", 1 << 18)
    products = list(compute.product_rates())
    assert {(rate.dtype, rate.size) for rate in products} == {
        (d, s) for d in ("float32", "float64") for s in (16.0, 64.0)
    }
    assert all(rate.value > 1e6 for rate in products)
    assert [(rate.size, rate.value > 1e6) for rate in memory_rates()] == [(1 << 18, True), (1 << 20, True)]
    assert {rate.kind for rate in storage_rates(tmp_path)} == {"storage-write", "storage-read"}
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="MiB free"):
        list(storage_rates(tmp_path / "none"))
