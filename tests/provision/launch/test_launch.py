"""Launches: framework commands, fabric environments, and servers on one or several machines."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import load_catalog
from gpuyard.plan.service import EngineCommand
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.launch.cloud_nccl import read_nccl_facts
from gpuyard.provision.launch.container_images import read_images
from gpuyard.provision.launch.job import FabricEnvironment, fabric_environment, job_launch
from gpuyard.provision.launch.launch import EnvVar, Launch
from gpuyard.provision.launch.replicas import machines_per_replica, replicas_per_machine
from gpuyard.provision.launch.server import calls_srun, server_launch
from sample_blueprints import SHAPES, BlueprintSample, sample_blueprint

CATALOG = load_catalog()


def blueprint_of(machine: str, shape: str, machines_per_replica: int = 1) -> Blueprint:
    row = next(item for item in CATALOG.machines if item.name == machine)
    kind = next(item for item in SHAPES if item == shape)
    return sample_blueprint(
        BlueprintSample(machine=row, shape=kind, consumption="spot"), CATALOG, machines_per_replica
    )


def job(machine: str, shape: str = "multi-node", **requested: str) -> Launch:
    blueprint = blueprint_of(machine, shape)
    return job_launch(
        blueprint, resolve_settings(blueprint, DeploymentSettings(**requested)), "pod"
    )  # type: ignore[arg-type]


def value(launch: Launch, name: str) -> str:
    return next((item.value for item in launch.variables if item.name == name), "")


def test_torchrun_over_several_machines_uses_rank_and_master_address() -> None:
    launch = job("a3-megagpu-8g", program="train.py --steps 10")
    for word in (
        "--nproc-per-node=8",
        '--nnodes="$NODE_COUNT"',
        '--node-rank="$NODE_RANK"',
        "$MASTER_ADDR",
    ):
        assert word in launch.program
    assert launch.program.endswith("train.py --steps 10")
    assert not any("placeholder" in note for note in launch.notes)


def test_torchrun_on_one_machine_is_standalone_without_fabric() -> None:
    launch = job("a3-megagpu-8g", "single-node")
    assert "--standalone" in launch.program
    assert not launch.env_scripts
    assert not value(launch, "NCCL_LIB_DIR")
    assert any("placeholder" in note for note in launch.notes)


def test_jax_gets_coordinator_on_gpus_but_not_on_tpus() -> None:
    assert 'JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:' in job("a3-megagpu-8g", framework="jax").program
    tpu = job("ct6e-standard-4t")
    assert tpu.framework == "jax"
    assert tpu.program == "python train.py"
    assert "jax-ai-image" in tpu.image


def test_pytorch_xla_sets_pjrt_device() -> None:
    assert value(job("ct6e-standard-4t", framework="torch-xla"), "PJRT_DEVICE") == "TPU"
    on_gpus = job("a3-megagpu-8g", framework="torch-xla")
    assert value(on_gpus, "PJRT_DEVICE") == "CUDA"
    assert "torchrun" in on_gpus.program


@pytest.mark.parametrize(
    ("machine", "script", "name", "expected"),
    [
        (
            "a3-megagpu-8g",
            "nccl-env-profile.sh",
            "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY",
            "/dev/aperture_devices",
        ),
        ("a3-highgpu-8g", "", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth2,eth3,eth4"),
        ("a3-ultragpu-8g", "set_nccl_env.sh", "NCCL_NET", "gIB"),
        ("a4x-highgpu-4g", "set_nccl_env.sh", "NCCL_MNNVL_ENABLE", "1"),
    ],
)
def test_job_launch_sets_environment_of_the_fabric(
    machine: str, script: str, name: str, expected: str
) -> None:
    launch = job(machine)
    assert value(launch, name) == expected
    assert any(path.endswith(script) for path in launch.env_scripts) == bool(script)


def test_fabric_environment_on_host_differs_from_pod() -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "multi-node")
    fabric = fabric_environment(blueprint, "host")
    assert fabric.scripts == ("/var/lib/tcpxo/lib64/nccl-env-profile.sh",)
    late = fabric.variables_after_scripts
    assert EnvVar(name="NCCL_FASTRAK_CTRL_DEV", value="enp0s12") in late
    no_fabric = blueprint_of("g2-standard-96", "multi-node")
    assert fabric_environment(no_fabric, "host") == FabricEnvironment()


def test_job_launch_exports_parallelism_layout_and_paths() -> None:
    launch = job("a3-megagpu-8g")
    assert value(launch, "PLAN_DATA_PARALLEL") == "16"
    assert value(launch, "CHECKPOINT_DIR").startswith("/mnt/checkpoints/")
    assert value(launch, "DATA_DIR") == "/mnt/data"
    assert {(mount.path, mount.is_read_only) for mount in launch.mounts} == {
        ("/mnt/checkpoints", False),
        ("/mnt/data", True),
    }


def test_server_launch_listens_and_selects_command_by_rank() -> None:
    single = blueprint_of("a3-megagpu-8g", "service")
    settings = resolve_settings(single, DeploymentSettings())
    launch = server_launch(single, settings, "pod")
    assert "--port 8000" in launch.program
    assert (launch.port, launch.health) == (8000, "/health")
    assert not launch.env_scripts
    several = blueprint_of("a3-megagpu-8g", "service", 2)
    group = server_launch(several, resolve_settings(several, DeploymentSettings()), "pod")
    assert group.program.startswith('case "$NODE_RANK" in')
    assert "$HEAD" not in group.program
    assert group.env_scripts
    assert machines_per_replica(several) == 2


def test_small_replicas_share_one_machine() -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "service")
    service = blueprint.option.service
    assert service is not None
    small = replace(
        blueprint, option=replace(blueprint.option, service=replace(service, chips_per_replica=2))
    )
    assert replicas_per_machine(small) == 4
    assert machines_per_replica(small) == 1


def test_calls_srun_is_true_for_multi_node_tensorrt_llm() -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "service", 2)
    service = blueprint.option.service
    assert service is not None
    engine = EngineCommand(
        name="tensorrt-llm", label="t", command=("srun -N 2 trtllm-llmapi-launch trtllm-serve m",)
    )
    trtllm = replace(
        blueprint, option=replace(blueprint.option, service=replace(service, engine=engine))
    )
    launch = server_launch(trtllm, resolve_settings(trtllm, DeploymentSettings()), "pod")
    assert calls_srun(launch)
    assert not calls_srun(
        server_launch(blueprint, resolve_settings(blueprint, DeploymentSettings()), "pod")
    )


def test_launch_facts_have_sources() -> None:
    images, nccl = read_images(), read_nccl_facts()
    for facts, rows in ((images, images.images), (nccl, nccl.fabric_runtimes)):
        known = {source.name for source in facts.sources}
        for row in rows:
            assert row.source, row.name
            assert set(row.source) <= known, row.name
    for runtime in nccl.fabric_runtimes:
        assert all("=" in line for line in runtime.variables), runtime.name


@pytest.mark.slow
def test_interface_names_survive_the_vendors_script_and_libraries_are_prepended(
    tmp_path: Path,
) -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "multi-node")
    settings = resolve_settings(
        blueprint, DeploymentSettings(framework="command", program="env > out")
    )
    profile = tmp_path / "profile.sh"
    profile.write_text('export NCCL_SOCKET_IFNAME=eth0 NCCL_BUFFSIZE=8388608 OTHER="$UNSET"\n')
    text = job_launch(blueprint, settings, "host").script(exports=True)
    text = text.replace("/var/lib/tcpxo/lib64/nccl-env-profile.sh", str(profile))
    environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/usr/local/cuda/compat"}
    subprocess.run(["bash", "-c", text], cwd=tmp_path, env=environment, check=True)
    rows = (tmp_path / "out").read_text().splitlines()
    assert "NCCL_SOCKET_IFNAME=enp0s12" in rows
    assert "NCCL_BUFFSIZE=8388608" in rows
    assert "LD_LIBRARY_PATH=/var/lib/tcpxo/lib64:/usr/local/cuda/compat" in rows
