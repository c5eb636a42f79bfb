"""How programs start: commands of frameworks, environments of fabrics, servers of one and of several machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.blueprint import Blueprint
from gpuyard.catalog import load_catalog
from gpuyard.plan import Engine
from gpuyard.provision.launch import (
    fabric_variables,
    job_launch,
    machines_per_replica,
    needs_slurm,
    read_launch_facts,
    replicas_per_machine,
    server_launch,
)
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.samples import SHAPES, Sample, sample_blueprint
from gpuyard.provision.settings import Settings, place_of

CATALOG = load_catalog()


def decision(machine: str, shape: str, machines_per_replica: int = 1) -> Blueprint:
    row = next(item for item in CATALOG.machines if item.name == machine)
    kind = next(item for item in SHAPES if item == shape)
    return sample_blueprint(Sample(machine=row, shape=kind, way="spot"), CATALOG, machines_per_replica)


def job(machine: str, shape: str = "multi-node", **told: str) -> Launch:
    blueprint = decision(machine, shape)
    return job_launch(blueprint, place_of(blueprint, Settings(**told)), "pod")  # type: ignore[arg-type]


def value(launch: Launch, name: str) -> str:
    return next((item.value for item in launch.variables if item.name == name), "")


def test_torchrun_over_machines_takes_its_rank_and_the_first_address() -> None:
    launch = job("a3-megagpu-8g", program="train.py --steps 10")
    for word in ("--nproc-per-node=8", '--nnodes="$NODE_COUNT"', '--node-rank="$NODE_RANK"', "$MASTER_ADDR"):
        assert word in launch.program
    assert launch.program.endswith("train.py --steps 10")
    assert not any("placeholder" in note for note in launch.notes)


def test_torchrun_on_one_machine_needs_neither_fabric_nor_address() -> None:
    launch = job("a3-megagpu-8g", "single-node")
    assert "--standalone" in launch.program
    assert not launch.sourced
    assert not value(launch, "NCCL_LIB_DIR")
    assert any("placeholder" in note for note in launch.notes)


def test_jax_on_gpus_is_told_its_coordinator_and_on_tpus_finds_it() -> None:
    assert 'JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:' in job("a3-megagpu-8g", framework="jax").program
    tpu = job("ct6e-standard-4t")
    assert tpu.framework == "jax"
    assert tpu.program == "python train.py"
    assert "jax-ai-image" in tpu.image


def test_pytorch_xla_uses_pjrt() -> None:
    assert value(job("ct6e-standard-4t", framework="torch-xla"), "PJRT_DEVICE") == "TPU"
    on_gpus = job("a3-megagpu-8g", framework="torch-xla")
    assert value(on_gpus, "PJRT_DEVICE") == "CUDA"
    assert "torchrun" in on_gpus.program


@pytest.mark.parametrize(
    ("machine", "sourced", "name", "wanted"),
    [
        ("a3-megagpu-8g", "nccl-env-profile.sh", "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "/dev/aperture_devices"),
        ("a3-highgpu-8g", "", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth2,eth3,eth4"),
        ("a3-ultragpu-8g", "set_nccl_env.sh", "NCCL_NET", "gIB"),
        ("a4x-highgpu-4g", "set_nccl_env.sh", "NCCL_MNNVL_ENABLE", "1"),
    ],
)
def test_each_fabric_has_its_plugin_settings(machine: str, sourced: str, name: str, wanted: str) -> None:
    launch = job(machine)
    assert value(launch, name) == wanted
    assert any(path.endswith(sourced) for path in launch.sourced) == bool(sourced)


def test_a_machine_sees_other_interfaces_than_a_pod() -> None:
    blueprint = decision("a3-megagpu-8g", "multi-node")
    variables, sourced = fabric_variables(blueprint, "host")
    assert sourced == ("/var/lib/tcpxo/lib64/nccl-env-profile.sh",)
    assert ("NCCL_FASTRAK_CTRL_DEV", "enp0s12") in [(item.name, item.value) for item in variables]
    assert fabric_variables(decision("g2-standard-96", "multi-node"), "host") == ((), ())


def test_the_layout_of_the_plan_and_the_paths_reach_the_program() -> None:
    launch = job("a3-megagpu-8g")
    assert value(launch, "PLAN_DATA_PARALLEL") == "16"
    assert value(launch, "CHECKPOINT_DIR").startswith("/mnt/checkpoints/")
    assert value(launch, "DATA_DIR") == "/mnt/data"
    assert {(mount.path, mount.is_read_only) for mount in launch.mounts} == {
        ("/mnt/checkpoints", False),
        ("/mnt/data", True),
    }


def test_a_server_opens_its_port_and_machines_choose_their_line_by_rank() -> None:
    alone = decision("a3-megagpu-8g", "service")
    place = place_of(alone, Settings())
    launch = server_launch(alone, place, "pod")
    assert "--port 8000" in launch.program
    assert (launch.port, launch.health) == (8000, "/health")
    assert not launch.sourced
    several = decision("a3-megagpu-8g", "service", 2)
    group = server_launch(several, place_of(several, Settings()), "pod")
    assert group.program.startswith('case "$NODE_RANK" in')
    assert "$HEAD" not in group.program
    assert group.sourced
    assert machines_per_replica(several) == 2


def test_small_replicas_share_a_machine() -> None:
    blueprint = decision("a3-megagpu-8g", "service")
    service = blueprint.option.service
    assert service is not None
    small = replace(blueprint, option=replace(blueprint.option, service=replace(service, chips_per_replica=2)))
    assert replicas_per_machine(small) == 4
    assert machines_per_replica(small) == 1


def test_what_mpi_starts_is_for_slurm() -> None:
    blueprint = decision("a3-megagpu-8g", "service", 2)
    service = blueprint.option.service
    assert service is not None
    engine = Engine(name="tensorrt-llm", label="t", command=("srun -N 2 trtllm-llmapi-launch trtllm-serve m",))
    made = replace(blueprint, option=replace(blueprint.option, service=replace(service, engine=engine)))
    launch = server_launch(made, place_of(made, Settings()), "pod")
    assert needs_slurm(launch)
    assert not needs_slurm(server_launch(blueprint, place_of(blueprint, Settings()), "pod"))


def test_every_fact_has_a_source() -> None:
    facts = read_launch_facts()
    known = {source.name for source in facts.sources}
    for row in (*facts.images, *facts.plumbing):
        assert row.source, row.name
        assert set(row.source) <= known, row.name
    for row in facts.plumbing:
        assert all("=" in line for line in row.variables), row.name


def test_an_image_of_ones_own_has_no_source_and_the_default_says_where_it_was_read() -> None:
    assert job("a3-megagpu-8g", image="me/mine:1").image_source == ""
    assert "2026" in job("a3-megagpu-8g").image_source
