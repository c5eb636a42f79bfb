"""Platform suitability: every platform has a reason, and the requested one ranks first."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.machines import Machine
from gpuyard.plan.option import Suitability
from gpuyard.plan.platforms import suitability
from gpuyard.workload.read import parse_workload
from gpuyard.workload.workload import Workload

CATALOG = load_catalog()
TRAIN = "task: pretraining\nmodel: llama-3-70b\ndata: {tokens: 1T, sequence: 8192}\n"
SERVE = "task: inference\nmodel: llama-3-8b\ntraffic: {input: 100, output: 100, concurrency: 8}\n"
SEATS = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 4}\n"
FRAMES = (
    "task: graphics\ngraphics: {use: rendering, frames: 10, frame_time: 1min, measured_on: l4}\n"
)
MPI = "task: hpc\nhpc: {offload: 50%, bound: fp64, cpu_hours: 1k, mpi: true}\n"
CLOUD = {"compute-engine", "gke", "slurm", "vertex-ai", "cloud-run"}


def read(text: str) -> Workload:
    return parse_workload(text, "test.yaml", CATALOG)


def judged(text: str, machine: str, machine_count: int) -> dict[str, Suitability]:
    found = suitability(read(text), CATALOG.machine(machine), machine_count, CATALOG)
    return {verdict.platform: verdict for verdict in found}


@pytest.mark.parametrize("text", [TRAIN, SERVE, SEATS, FRAMES, MPI])
@pytest.mark.parametrize(
    "machine",
    [row for row in CATALOG.machines if row.provider == "google"],
    ids=lambda row: row.name,
)
def test_every_platform_has_reason(text: str, machine: Machine) -> None:
    for machine_count in (1, 18, 20):
        found = suitability(read(text), machine, machine_count, CATALOG)
        assert {verdict.platform for verdict in found} == CLOUD
        assert all(verdict.why for verdict in found)
        suits = [verdict.suits for verdict in found]
        assert suits == sorted(suits, reverse=True)  # those that suit come first


def test_single_machine_prefers_compute_engine() -> None:
    assert next(iter(judged(TRAIN, "a3-ultragpu-8g", 64))) == "gke"
    assert next(iter(judged(TRAIN, "a3-ultragpu-8g", 1))) == "compute-engine"
    assert "no orchestrator" in judged(TRAIN, "a3-ultragpu-8g", 1)["compute-engine"].why
    assert "your own orchestrator" in judged(TRAIN, "a3-ultragpu-8g", 64)["compute-engine"].why
    assert "recommended by Google" in judged(TRAIN, "a3-ultragpu-8g", 64)["slurm"].why


def test_cloud_run_supports_one_gpu() -> None:
    assert judged(SERVE, "g2-standard-8", 4)["cloud-run"].suits
    assert not judged(SERVE, "g2-standard-24", 4)["cloud-run"].suits
    assert "one L4" in judged(SERVE, "a3-highgpu-8g", 1)["cloud-run"].why
    assert not judged(TRAIN, "g2-standard-8", 1)["cloud-run"].suits
    assert "display" in judged(SEATS, "g2-standard-8", 1)["cloud-run"].why


@pytest.mark.parametrize(("machine_count", "suits"), [(18, True), (36, True), (20, False)])
def test_vertex_ai_needs_a4x_in_multiples_of_18(machine_count: int, suits: bool) -> None:
    verdict = judged(TRAIN, "a4x-highgpu-4g", machine_count)["vertex-ai"]
    assert verdict.suits == suits
    assert suits or "18" in verdict.why


def test_vertex_ai_does_not_support_gb300() -> None:
    assert "no accelerator type" in judged(TRAIN, "a4x-maxgpu-4g-metal", 18)["vertex-ai"].why


def test_hpc_prefers_slurm_and_workstations_compute_engine() -> None:
    assert next(iter(judged(MPI, "h4d-standard-192", 16))) == "slurm"
    assert next(iter(judged(SEATS, "g2-standard-8", 16))) == "compute-engine"
    assert not judged(SEATS, "g2-standard-8", 16)["gke"].suits
    assert judged(FRAMES, "g2-standard-8", 16)["gke"].suits


def test_requested_platform_ranks_first() -> None:
    found = judged(TRAIN + "where: {platform: slurm}\n", "a3-megagpu-8g", 4)
    assert next(iter(found)) == "slurm"
    assert [name for name, verdict in found.items() if verdict.suits] == ["slurm"]
    assert "where.platform is slurm" in found["gke"].why


def test_undocumented_support_is_reported() -> None:
    assert "is not documented" in judged(MPI, "c3-standard-176", 4)["slurm"].why


def test_onprem_has_slurm_and_kubernetes() -> None:
    found = judged(TRAIN + "where: {provider: onprem, inventory: {dgx-h100: 4}}\n", "dgx-h100", 4)
    assert set(found) == {"slurm", "kubernetes"}
    assert all(verdict.suits for verdict in found.values())
