"""Storage: required capacity and throughput, and services in the smallest sufficient size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.plan.option import StorageOption, StorageRequirement
from gpuyard.plan.storage import checkpoint_bytes, storage_need, storage_picks
from gpuyard.workload.read import parse_workload
from gpuyard.workload.workload import Workload

CATALOG = load_catalog()
ROWS = {row.name: row for row in CATALOG.storage}
A3 = CATALOG.machine("a3-ultragpu-8g")
TIB = 2.0**40
DAY_S = 86400.0


def read(text: str) -> Workload:
    return parse_workload(text, "test.yaml", CATALOG)


def training(data: str = "{tokens: 15T, sequence: 8192, size: 60TB}", more: str = "") -> Workload:
    return read(f"task: pretraining\nmodel: llama-3-70b\ndata: {data}\n{more}")


def picks(need: StorageRequirement, task: str = "pretraining") -> dict[str, StorageOption]:
    return {pick.storage: pick for pick in storage_picks(need, A3, CATALOG, task)}  # type: ignore[arg-type]


def need(
    dataset: float = 0.0, read_rate: float = 0.0, checkpoint: float = 0.0, write_rate: float = 0.0
) -> StorageRequirement:
    return StorageRequirement(
        dataset_bytes=dataset,
        read_bytes_per_s=read_rate,
        checkpoint_bytes=checkpoint,
        checkpoint_write_bytes_per_s=write_rate,
    )


def test_full_checkpoint_is_fourteen_bytes_per_parameter() -> None:
    model = CATALOG.model("llama-3-70b")
    assert checkpoint_bytes(training()) == pytest.approx(14 * model.parameters_count)
    assert checkpoint_bytes(training(more="training: {optimizer: sgd}\n")) == pytest.approx(
        10 * model.parameters_count
    )


def test_adapter_checkpoint_is_small() -> None:
    lora = read(
        "task: finetuning\nmodel: llama-3-8b\ndata: {samples: 1000, sequence: 512}\n"
        "training: {method: lora, lora_rank: 16}\n"
    )
    # rank × (in + out) of q, k, v, o, gate, up and down in 32 layers
    adapters = 16 * 32 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336))
    assert checkpoint_bytes(lora) == pytest.approx(14 * adapters)
    assert checkpoint_bytes(lora) < 0.01 * 14 * CATALOG.model("llama-3-8b").parameters_count


def test_read_rate_follows_tokens_per_second() -> None:
    found = storage_need(training(), run_s=30 * DAY_S, tokens_per_s=1e7)
    assert found.read_bytes_per_s == pytest.approx(
        1e7 * 60e12 / 15e12
    )  # four bytes a token on this disk
    assert found.checkpoint_write_bytes_per_s == pytest.approx(found.checkpoint_bytes / 60)
    bare = storage_need(
        training("{tokens: 15T, sequence: 8192}"), run_s=30 * DAY_S, tokens_per_s=1e7
    )
    assert bare.dataset_bytes == pytest.approx(
        4 * 15e12
    )  # a vocabulary of 128,256 takes four bytes
    assert "token ids only" in bare.note


def test_graphics_and_hpc_read_dataset_once() -> None:
    hpc = read(
        "task: hpc\nhpc: {offload: 0%, bound: fp64, cpu_hours: 1k, memory: 2TB}\ndata: {size: 10TB}\n"
    )
    found = storage_need(hpc, run_s=1e5)
    assert found.read_bytes_per_s == pytest.approx(1e8)
    assert found.checkpoint_bytes == 2e12


@given(st.floats(0, 1e17), st.floats(0, 1e12), st.floats(1.0, 1e14), st.floats(0, 1e12))
def test_suitable_storage_meets_requirement(
    dataset: float, read_rate: float, checkpoint: float, write_rate: float
) -> None:
    wanted = need(dataset, read_rate, checkpoint, write_rate)
    for pick in storage_picks(wanted, A3, CATALOG):
        row = ROWS[pick.storage]
        assert pick.why
        if not pick.meets:
            continue
        assert pick.size_bytes >= (dataset + 2 * checkpoint) * (1 - 1e-9)
        assert pick.read_bytes_per_s >= read_rate * (1 - 1e-6)
        assert pick.write_bytes_per_s is None or pick.write_bytes_per_s >= write_rate * (1 - 1e-6)
        assert (row.min_bytes or 0.0) <= pick.size_bytes <= (row.max_bytes or float("inf"))
        if row.step_bytes:
            steps = (pick.size_bytes - (row.min_bytes or 0.0)) / row.step_bytes
            assert steps == pytest.approx(round(steps), abs=1e-6)


def test_size_is_smallest_sufficient_increment() -> None:
    found = picks(need(dataset=60e12, checkpoint=1e12, write_rate=16.5e9))
    assert (
        found["managed-lustre-1000"].size_bytes == 63_000 * 2**30
    )  # held bytes: 62 TB in steps of 9,000 GiB
    assert (
        found["managed-lustre-125"].size_bytes == 144_000 * 2**30
    )  # 16.5 GB/s in steps of 72,000 GiB
    assert "throughput" in found["managed-lustre-125"].why
    assert "capacity" in found["managed-lustre-1000"].why


def test_unsuitable_storage_has_reason() -> None:
    found = picks(need(dataset=200e12, checkpoint=1e12, write_rate=16e9))
    assert "read-only" in found["rapid-cache"].why
    assert "read-only" in found["hyperdisk-ml"].why
    assert "invitation" in found["parallelstore"].why
    assert "lost when the machine stops" in found["local-ssd-12000"].why
    assert "above its maximum" in found["filestore-zonal"].why
    assert not any(
        found[name].meets
        for name in ("rapid-cache", "hyperdisk-ml", "parallelstore", "filestore-zonal")
    )


def test_recommended_storage_ranks_first_unless_oversized() -> None:
    large = storage_picks(
        need(dataset=60e12, checkpoint=1e12, write_rate=16e9), A3, CATALOG, "pretraining"
    )
    assert large[0].storage.startswith("managed-lustre")
    assert "recommended by Google" in large[0].why
    small = storage_picks(
        need(dataset=6e8, checkpoint=6e8, write_rate=1e7), A3, CATALOG, "finetuning"
    )
    assert small[0].storage == "cloud-storage-fuse"
    assert "far above" in next(pick.why for pick in small if pick.storage == "managed-lustre-1000")


def test_no_storage_is_picked_onprem_or_without_need() -> None:
    assert storage_picks(need(dataset=1e12), CATALOG.machine("dgx-h100"), CATALOG) == ()
    assert storage_picks(need(), A3, CATALOG) == ()
