"""sbatch scripts: their options, and how a real Slurm runs them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import demand_for
from gpuyard.plan.service import EngineCommand
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.slurm.script import pyxis_image
from gpuyard.provision.platforms.slurm.slurm_platform import SLURM
from gpuyard.provision.validate.sbatch import read_options
from tests.provision.slurm import START_S, Cluster, missing, slurm_cluster

from .rendering import SETTINGS, blueprint_of, catalog, check, of_machines, render, render_artefacts

needs_slurm = pytest.mark.skipif(
    bool(missing()) and os.environ.get("GPUYARD_REQUIRE_ALL") != "1", reason=missing() or "Slurm"
)
TRAINING = blueprint_of("a3-ultragpu-8g", "multi-node", "spot")


def script(blueprint: Blueprint = TRAINING, settings: DeploymentSettings = SETTINGS) -> str:
    """Return the sbatch script."""
    return render_artefacts(SLURM, blueprint, settings).files[0].text


def options(text: str) -> dict[str, str | None]:
    """Return the #SBATCH options of a script."""
    return {option.name: option.value for option in read_options(text) if option.is_read}


def test_sbatch_requests_exclusive_nodes_time_limit_and_requeue() -> None:
    sbatch = options(script())
    assert sbatch["nodes"] == "2"
    assert sbatch["gpus-per-node"] == "8"
    assert sbatch["ntasks-per-node"] == "1"
    assert sbatch["mem"] == "0"
    assert {"exclusive", "requeue"} <= sbatch.keys()
    assert sbatch["time"] == "1-06:00:00"  # 1.25 days
    assert "plan-hash=" in str(sbatch["comment"])
    assert "partition" not in sbatch


def test_sbatch_uses_requested_settings() -> None:
    settings = replace(
        SETTINGS, partition="long", switches=2, ttl_s=90_061.0, image="nvcr.io/me/mine:1"
    )
    text = script(settings=settings)
    sbatch = options(text)
    assert (sbatch["partition"], sbatch["switches"], sbatch["time"]) == ("long", "2", "1-01:01:01")
    assert "--container-image='nvcr.io#me/mine:1'" in text


@pytest.mark.parametrize(
    ("image", "named"),
    [
        ("nvcr.io/nvidia/nemo:1", "nvcr.io#nvidia/nemo:1"),
        ("localhost:5000/a/b", "localhost:5000#a/b"),
        ("vllm/vllm-openai:v1", "vllm/vllm-openai:v1"),
        ("ubuntu", "ubuntu"),
    ],
)
def test_pyxis_image_uses_enroot_syntax(image: str, named: str) -> None:
    assert pyxis_image(image) == named


def test_sbatch_sets_up_fabric_for_multi_node_only() -> None:
    text = script()
    assert "source /usr/local/gib/scripts/set_nccl_env.sh" in text
    assert "export NCCL_NET=gIB" in text
    assert "/usr/local/gib:/usr/local/gib" in text
    alone = script(blueprint_of("a3-ultragpu-8g", "single-node", "spot"))
    assert "NCCL_NET" not in alone
    assert "/usr/local/gib" not in alone


def test_sbatch_allocates_complete_nvlink_domains() -> None:
    racks = of_machines(blueprint_of("a4x-highgpu-4g", "multi-node", "reservation"), 36)
    result = render_artefacts(SLURM, racks)
    assert options(result.files[0].text)["switches"] == "2"
    assert any("--segment=18" in note for note in result.notes)


def test_nvl72_rack_is_eighteen_slurm_nodes() -> None:
    text = script(blueprint_of("gb200-nvl72", "single-node"))
    sbatch = options(text)
    assert (sbatch["nodes"], sbatch["gpus-per-node"], sbatch["switches"]) == ("18", "4", "1")
    assert "--nproc-per-node=4" in text


def test_designed_fabric_sets_switches_and_nccl_variables() -> None:
    blueprint = of_machines(blueprint_of("hgx-b200", "multi-node"), 64)
    fabric = design(demand_for(catalog().machine("hgx-b200"), 64), catalog())
    assert isinstance(fabric, Fabric)
    text = script(replace(blueprint, fabric=fabric))
    groups = {server.stripe for server in fabric.servers}
    assert options(text)["switches"] == str(len(groups))
    assert f"export NCCL_IB_TC={fabric.lossless.nic.traffic_class_byte}" in text
    assert "FRONTEND_INTERFACE" not in text  # only the operator knows it
    assert not check(*render_artefacts(SLURM, replace(blueprint, fabric=fabric)).files).errors


def test_slurm_is_unsuitable_for_services_and_tpus() -> None:
    for machine, way, nearest in (
        ("a3-megagpu-8g", "spot", "gke"),
        ("hgx-h100", None, "kubernetes"),
    ):
        result = render(SLURM, blueprint_of(machine, "service", way), SETTINGS)  # type: ignore[arg-type]
        assert isinstance(result, Unsuitable)
        assert result.nearest == nearest
    tpu = render(SLURM, blueprint_of("ct5lp-hightpu-4t", "multi-node", "spot"), SETTINGS)
    assert isinstance(tpu, Unsuitable)


def spread_tensorrt() -> Blueprint:
    """Return a TensorRT-LLM service with two machines per replica, which srun starts."""
    blueprint = blueprint_of("a3-ultragpu-8g", "service", "spot", 2)
    service = blueprint.option.service
    assert service is not None
    line = "srun -N 2 --ntasks 16 --mpi=pmix trtllm-llmapi-launch trtllm-serve model"
    engine = EngineCommand(name="tensorrt-llm", label="TensorRT-LLM", command=(line,))
    service = replace(service, engine=engine, replicas=3)
    return replace(blueprint, option=replace(blueprint.option, service=service))


def test_tensorrt_llm_service_is_an_array_job() -> None:
    result = render_artefacts(SLURM, spread_tensorrt())
    sbatch = options(result.files[0].text)
    assert (sbatch["array"], sbatch["nodes"], sbatch["ntasks-per-node"]) == ("0-2", "2", "8")
    assert 'srun "${container[@]}" -N 2' in result.files[0].text
    assert not check(*result.files).errors
    assert any("number is fixed" in note for note in result.notes)


# --- with a real Slurm


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Four virtual A3 Ultra nodes, two per switch."""
    assert not missing(), missing()
    with slurm_cluster() as running:
        yield running


def sbatch_test_only(cluster: Cluster, text: str, folder: Path) -> tuple[int, str]:
    """Return exit code and output of `sbatch --test-only`."""
    path = folder / "job.sbatch"
    path.write_text(text)
    done = cluster.run("sbatch", "--test-only", str(path))
    return done.returncode, done.stderr


@needs_slurm
def test_slurm_accepts_job_that_fits(cluster: Cluster, tmp_path: Path) -> None:
    for blueprint in (
        TRAINING,
        of_machines(TRAINING, 4),
        blueprint_of("a3-ultragpu-8g", "single-node", "flex-start"),
        blueprint_of("a4-highgpu-8g", "multi-node", "reservation"),
        blueprint_of("g2-standard-8", "single-node", "on-demand"),
        blueprint_of("dgx-h200", "multi-node"),
        spread_tensorrt(),
    ):
        code, output = sbatch_test_only(cluster, script(blueprint), tmp_path)
        assert code == 0, f"{blueprint.machine.name}: {output}"
    code, output = sbatch_test_only(
        cluster, script(settings=replace(SETTINGS, partition="a3u", switches=1)), tmp_path
    )
    assert code == 0, output


@needs_slurm
def test_slurm_rejects_job_that_does_not_fit(cluster: Cluster, tmp_path: Path) -> None:
    too_many = of_machines(TRAINING, 5)
    too_close = replace(SETTINGS, switches=1)
    for blueprint, settings in (
        (too_many, SETTINGS),
        (of_machines(TRAINING, 3), too_close),
        (blueprint_of("a2-megagpu-16g", "multi-node", "spot"), SETTINGS),
        (TRAINING, replace(SETTINGS, partition="none")),
    ):
        code, output = sbatch_test_only(cluster, script(blueprint, settings), tmp_path)
        assert code != 0, output


def finished(cluster: Cluster, job: str) -> str:
    """Wait for a job and return its final state."""
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s:
        output = cluster.run("scontrol", "show", "job", job).stdout
        result = re.search(r"JobState=(\w+)", output)
        if result and result.group(1) not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
            return result.group(1)
        time.sleep(0.5)
    raise AssertionError(output)


@needs_slurm
def test_slurm_job_runs_on_every_node_with_its_rank(cluster: Cluster, tmp_path: Path) -> None:
    blueprint = of_machines(
        blueprint_of("g2-standard-8", "multi-node", "spot"), 4
    )  # without an environment script to source
    program = "echo rank=$NODE_RANK count=$NODE_COUNT master=$MASTER_ADDR keep=$CHECKPOINT_DIR tp=$PLAN_TENSOR_PARALLEL"
    text = script(blueprint, replace(SETTINGS, framework="command", program=program, switches=2))
    (tmp_path / "job.sbatch").write_text(text)
    sent = cluster.run("sbatch", "--parsable", f"--chdir={tmp_path}", str(tmp_path / "job.sbatch"))
    assert sent.returncode == 0, sent.stderr
    state = finished(cluster, sent.stdout.strip())
    output = "".join(path.read_text() for path in tmp_path.glob("*.out"))
    assert state == "COMPLETED", output
    ranks = sorted(
        int(rank)
        for rank in re.findall(r"rank=(\d+) count=4 master=a3u-0 keep=\S+/checkpoints tp=1", output)
    )
    assert ranks == [0, 1, 2, 3]
    assert not list(tmp_path.glob(".begun-*"))


@needs_slurm
def test_failed_slurm_job_is_requeued(cluster: Cluster, tmp_path: Path) -> None:
    program = f'if [ ! -e {tmp_path}/test_only ]; then touch {tmp_path}/test_only; exit 7; fi; echo "again $SLURM_RESTART_COUNT"'
    blueprint = blueprint_of("g2-standard-8", "single-node", "spot")
    text = script(blueprint, replace(SETTINGS, framework="command", program=program))
    (tmp_path / "job.sbatch").write_text(text)
    sent = cluster.run("sbatch", "--parsable", f"--chdir={tmp_path}", str(tmp_path / "job.sbatch"))
    job = sent.stdout.strip()
    until_s = time.monotonic() + START_S
    output = shown = ""
    while time.monotonic() < until_s:  # Slurm delays a requeued job
        output = "".join(path.read_text() for path in tmp_path.glob("*.out"))
        shown = cluster.run("scontrol", "show", "job", job).stdout
        if "restarting" in output and re.search(r"Restarts=1\b", shown):
            break
        time.sleep(0.5)
    cluster.run("scancel", job)
    assert "the program exited with code 7: restarting from its last checkpoint" in output
    assert "Requeue=1" in shown
    assert re.search(r"Restarts=1\b", shown), shown
    assert list(tmp_path.glob(f".begun-{job}"))
