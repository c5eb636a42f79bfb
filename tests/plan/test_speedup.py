"""Amdahl's law over the catalog's rates, and messages between machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.plan.speedup import HpcMachine, RunTime, hpc_machine, run_times
from gpuyard.workload.sections import Hpc

CATALOG = load_catalog()
BASE = Hpc(
    offload_ratio=0.85,
    bound="bandwidth",
    cpu_hours_count=200e3,
    measured_on="c3-standard-176",
    memory_bytes=2e12,
    mpi=True,
)
MACHINES = [
    "a3-ultragpu-8g",
    "a4-highgpu-8g",
    "a2-ultragpu-8g",
    "g2-standard-96",
    "n1-4xt4",
    "h4d-standard-192",
]


def bench(hpc: Hpc, name: str) -> HpcMachine:
    found = hpc_machine(hpc, CATALOG.machine(name), CATALOG)
    assert isinstance(found, HpcMachine), found
    return found


def times(hpc: Hpc, name: str, *counts: int) -> RunTime:
    return run_times(hpc, bench(hpc, name), np.array(counts or (1,), dtype=np.int64))


def test_reference_cpu_takes_its_core_hours() -> None:
    alone = replace(BASE, mpi=False, offload_ratio=0.0)
    assert times(alone, "c3-standard-176").total_s[0] == pytest.approx(200e3 * 3600 / 88)


def test_run_time_follows_amdahls_law() -> None:
    hpc = replace(BASE, mpi=False)
    found = bench(hpc, "a3-ultragpu-8g")
    cores = 112 * 358.4e9 / 56  # Emerald Rapids: bandwidth of 112 cores
    assert found.speedup_ratio == pytest.approx(8 * 4800e9 / cores)
    cpu_s = 200e3 * 3600 * (307.2e9 / 56) / cores
    expected = cpu_s * (0.15 + 0.85 / found.speedup_ratio)
    assert times(hpc, "a3-ultragpu-8g").total_s[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("bound", "gpu", "cpu"), [("fp64", 34e12, 5.197e12 / 56), ("fp32", 67e12, 10.394e12 / 56)]
)
def test_bound_selects_rate(bound: str, gpu: float, cpu: float) -> None:
    hpc = replace(BASE, bound=bound, mpi=False)  # type: ignore[arg-type]
    assert bench(hpc, "a3-ultragpu-8g").speedup_ratio == pytest.approx(8 * gpu / (112 * cpu))


def test_slow_accelerators_are_not_used() -> None:
    fp64 = replace(BASE, bound="fp64")
    found = bench(fp64, "n1-4xt4")  # four T4 have 1 TFLOPS of FP64, the 48 cores four
    assert not found.offloads
    assert found.speedup_ratio == 1.0
    assert found.memory_bytes == CATALOG.machine("n1-4xt4").memory_bytes


@given(
    st.sampled_from(MACHINES),
    st.sampled_from(["fp64", "bandwidth"]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 256),
)
def test_run_time_never_grows_with_offload(
    name: str, bound: str, one: float, two: float, count: int
) -> None:
    low, high = sorted((one, two))
    less = times(replace(BASE, bound=bound, offload_ratio=low), name, count)  # type: ignore[arg-type]
    more = times(replace(BASE, bound=bound, offload_ratio=high), name, count)  # type: ignore[arg-type]
    assert more.total_s[0] <= less.total_s[0] * (1 + 1e-9)


@given(st.sampled_from(MACHINES), st.integers(1, 1000))
def test_terms_add_up_and_machines_share_work(name: str, count: int) -> None:
    found = times(BASE, name, 1, count)
    assert np.allclose(found.total_s, found.host_s + found.offloaded_s + found.message_s)
    assert found.host_s[1] * count == pytest.approx(found.host_s[0])
    assert found.message_s[0] == 0.0  # one machine talks to nobody
    assert count == 1 or found.message_s[1] > 0.0


def test_mpi_time_is_halo_transfer_plus_latency() -> None:
    found = times(BASE, "h4d-standard-192", 64)
    sweeps = 200e3 * 3600 * (307.2e9 / 56) / 2e12
    faces = 6 * (2e12 / 64 / 8) ** (2 / 3) * 8
    once = 4.7e-6 * (6 + 6) + faces / 25e9  # Cloud RDMA
    assert found.message_s[0] == pytest.approx(sweeps * once)


def test_faster_network_is_never_slower() -> None:
    machine = CATALOG.machine("h4d-standard-192")
    quick = replace(machine, network=replace(machine.network, host_bits_per_s=400e9))
    slow = run_times(BASE, bench(BASE, machine.name), np.array([64]))
    found = hpc_machine(BASE, quick, CATALOG)
    assert isinstance(found, HpcMachine)
    assert run_times(BASE, found, np.array([64])).total_s[0] < slow.total_s[0]


def test_unknown_rates_are_reported() -> None:
    assert "CPU of g4-standard-48" in str(
        hpc_machine(BASE, CATALOG.machine("g4-standard-48"), CATALOG)
    )
    fp32 = replace(BASE, bound="fp32")
    assert "no fp32 rate is known for AMD EPYC" in str(
        hpc_machine(fp32, CATALOG.machine("h4d-standard-192"), CATALOG)
    )


def test_core_hours_on_gpu_raise_input_error() -> None:
    with pytest.raises(InputError, match="core-hours cannot be measured on"):
        hpc_machine(
            replace(BASE, measured_on="h100-sxm"), CATALOG.machine("a3-megagpu-8g"), CATALOG
        )


def test_flop_count_replaces_core_hours() -> None:
    flop = Hpc(offload_ratio=1.0, bound="fp64", flop_count=34e12 * 8 * 1000)
    assert times(flop, "a3-ultragpu-8g").total_s[0] == pytest.approx(1000.0)
    streamed = Hpc(offload_ratio=1.0, bound="bandwidth", flop_count=1e18, bytes_per_flop=6.0)
    assert times(streamed, "a3-ultragpu-8g").total_s[0] == pytest.approx(6e18 / (8 * 4800e9))
