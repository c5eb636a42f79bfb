"""Storage rows: throughput by size, consistent limits, sources."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.storage import Storage

CATALOG = load_catalog()
ROWS = {storage.name: storage for storage in CATALOG.storage}
TIB = 2.0**40
LUSTRE_TIERS = (1000, 500, 250, 125)


def by_name(storage: Storage) -> str:
    return storage.name


def test_catalog_has_every_storage_service() -> None:
    assert {storage.service for storage in CATALOG.storage} == {
        "managed-lustre",
        "cloud-storage",
        "rapid-cache",
        "rapid-bucket",
        "hyperdisk-ml",
        "filestore",
        "parallelstore",
        "local-ssd",
    }


@pytest.mark.parametrize("storage", CATALOG.storage, ids=by_name)
def test_storage_throughput_and_sizes_are_consistent(storage: Storage) -> None:
    assert storage.read_bytes_per_s_per_tib or storage.max_read_bytes_per_s
    if storage.min_bytes and storage.max_bytes:
        assert storage.min_bytes < storage.max_bytes
    if storage.step_bytes and storage.min_bytes:
        assert storage.min_bytes % storage.step_bytes == 0
    if storage.read_bytes_per_s_per_tib and storage.write_bytes_per_s_per_tib:
        assert storage.write_bytes_per_s_per_tib <= storage.read_bytes_per_s_per_tib
    if storage.max_read_bytes_per_s and storage.max_write_bytes_per_s:
        assert storage.max_write_bytes_per_s <= storage.max_read_bytes_per_s


@pytest.mark.parametrize("tier", LUSTRE_TIERS)
def test_smallest_lustre_is_equally_fast_in_every_tier(tier: int) -> None:
    row = ROWS[f"managed-lustre-{tier}"]
    assert row.read_bytes_per_s_per_tib == tier * 1e6
    assert row.min_bytes == 9_000_000 / tier * 2**30
    assert row.min_bytes / TIB * row.read_bytes_per_s_per_tib == pytest.approx(8.789e9, rel=1e-3)


def test_lustre_iops_scale_with_throughput() -> None:
    for tier in LUSTRE_TIERS:
        assert ROWS[f"managed-lustre-{tier}"].read_iops_per_tib == pytest.approx(5.8 * tier)


def test_toolkit_default_lustre_size() -> None:
    tier = ROWS["managed-lustre-500"].read_bytes_per_s_per_tib
    assert tier
    assert 36_000 * 2**30 / TIB * tier == pytest.approx(18e9, rel=0.03)


def test_local_ssd_sizes_match_machines() -> None:
    sizes = {
        machine.local_ssd_bytes
        for machine in CATALOG.machines
        if machine.local_ssd_mode == "attached"
    }
    for name in ("local-ssd-6000", "local-ssd-12000"):
        assert ROWS[name].max_bytes in sizes
    half, whole = ROWS["local-ssd-6000"], ROWS["local-ssd-12000"]
    assert half.max_read_bytes_per_s
    assert half.max_write_bytes_per_s
    assert whole.max_read_bytes_per_s == 2 * half.max_read_bytes_per_s
    assert whole.max_write_bytes_per_s == 2 * half.max_write_bytes_per_s


def test_read_only_storage_has_no_write_rate() -> None:
    for name in ("rapid-cache", "hyperdisk-ml"):
        assert ROWS[name].max_write_bytes_per_s is None
        assert ROWS[name].write_bytes_per_s_per_tib is None
