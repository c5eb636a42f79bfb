"""Batch scripts: what they ask for, and what a real Slurm makes of them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.provision.slurm import Cluster, missing, slurm_cluster

from gpuyard.blueprint import Blueprint
from gpuyard.fabric import Fabric, demand_for, design
from gpuyard.plan import Engine
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.slurm import SLURM
from gpuyard.provision.platforms.slurm.script import pyxis_image
from gpuyard.provision.settings import Settings
from gpuyard.provision.validate.sbatch import read_options

from .decisions import SETTINGS, catalog, check, decision, made, of_machines

needs_slurm = pytest.mark.skipif(
    bool(missing()) and os.environ.get("GPUYARD_REQUIRE_ALL") != "1", reason=missing() or "Slurm"
)
TRAINING = decision("a3-ultragpu-8g", "multi-node", "spot")


def script(blueprint: Blueprint = TRAINING, settings: Settings = SETTINGS) -> str:
    """The batch script."""
    return made(SLURM, blueprint, settings).files[0].text


def options(text: str) -> dict[str, str | None]:
    """Its options."""
    return {option.name: option.value for option in read_options(text) if option.is_read}


def test_it_asks_for_whole_nodes_an_end_and_another_start() -> None:
    asked = options(script())
    assert asked["nodes"] == "2"
    assert asked["gpus-per-node"] == "8"
    assert asked["ntasks-per-node"] == "1"
    assert asked["mem"] == "0"
    assert {"exclusive", "requeue"} <= asked.keys()
    assert asked["time"] == "1-06:00:00"  # a day and a quarter of it
    assert "plan-hash=" in str(asked["comment"])
    assert "partition" not in asked


def test_settings_reach_the_script() -> None:
    settings = replace(SETTINGS, partition="long", switches=2, ttl_s=90_061.0, image="nvcr.io/me/mine:1")
    text = script(settings=settings)
    asked = options(text)
    assert (asked["partition"], asked["switches"], asked["time"]) == ("long", "2", "1-01:01:01")
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
def test_images_are_named_as_enroot_wants(image: str, named: str) -> None:
    assert pyxis_image(image) == named


def test_the_fabric_is_set_up_between_machines_only() -> None:
    text = script()
    assert "source /usr/local/gib/scripts/set_nccl_env.sh" in text
    assert "export NCCL_NET=gIB" in text
    assert "/usr/local/gib:/usr/local/gib" in text
    alone = script(decision("a3-ultragpu-8g", "single-node", "spot"))
    assert "NCCL_NET" not in alone
    assert "/usr/local/gib" not in alone


def test_nvlink_domains_are_kept_whole() -> None:
    racks = of_machines(decision("a4x-highgpu-4g", "multi-node", "reservation"), 36)
    found = made(SLURM, racks)
    assert options(found.files[0].text)["switches"] == "2"
    assert any("--segment=18" in note for note in found.notes)


def test_a_rack_that_the_catalog_counts_as_one_machine_is_eighteen_nodes() -> None:
    text = script(decision("gb200-nvl72", "single-node"))
    asked = options(text)
    assert (asked["nodes"], asked["gpus-per-node"], asked["switches"]) == ("18", "4", "1")
    assert "--nproc-per-node=4" in text


def test_a_designed_fabric_tells_switches_and_nccl() -> None:
    blueprint = of_machines(decision("hgx-b200", "multi-node"), 64)
    fabric = design(demand_for(catalog().machine("hgx-b200"), 64), catalog())
    assert isinstance(fabric, Fabric)
    text = script(replace(blueprint, fabric=fabric))
    groups = {server.stripe for server in fabric.servers}
    assert options(text)["switches"] == str(len(groups))
    assert f"export NCCL_IB_TC={fabric.lossless.nic.traffic_class_byte}" in text
    assert "FRONTEND_INTERFACE" not in text  # only the operator knows it
    assert not check(*made(SLURM, replace(blueprint, fabric=fabric)).files).errors


def test_services_belong_elsewhere() -> None:
    for machine, way, nearest in (("a3-megagpu-8g", "spot", "gke"), ("hgx-h100", None, "kubernetes")):
        found = SLURM.render(decision(machine, "service", way), SETTINGS)  # type: ignore[arg-type]
        assert isinstance(found, Unsuitable)
        assert found.nearest == nearest
    tpu = SLURM.render(decision("ct5lp-hightpu-4t", "multi-node", "spot"), SETTINGS)
    assert isinstance(tpu, Unsuitable)


def spread_tensorrt() -> Blueprint:
    """A service of TensorRT-LLM whose replicas take two machines: only srun starts it."""
    blueprint = decision("a3-ultragpu-8g", "service", "spot", 2)
    service = blueprint.option.service
    assert service is not None
    line = "srun -N 2 --ntasks 16 --mpi=pmix trtllm-llmapi-launch trtllm-serve model"
    engine = Engine(name="tensorrt-llm", label="TensorRT-LLM", command=(line,))
    service = replace(service, engine=engine, replicas=3)
    return replace(blueprint, option=replace(blueprint.option, service=service))


def test_an_engine_that_only_slurm_starts_is_an_array_of_replicas() -> None:
    found = made(SLURM, spread_tensorrt())
    asked = options(found.files[0].text)
    assert (asked["array"], asked["nodes"], asked["ntasks-per-node"]) == ("0-2", "2", "8")
    assert 'srun "${container[@]}" -N 2' in found.files[0].text
    assert not check(*found.files).errors
    assert any("fixed number" in note for note in found.notes)


# --- before a real Slurm


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Four virtual A3 Ultra nodes, two to a switch."""
    assert not missing(), missing()
    with slurm_cluster() as running:
        yield running


def tried(cluster: Cluster, text: str, folder: Path) -> tuple[int, str]:
    """What `sbatch --test-only` answers."""
    path = folder / "job.sbatch"
    path.write_text(text)
    done = cluster.run("sbatch", "--test-only", str(path))
    return done.returncode, done.stderr


@needs_slurm
def test_slurm_would_run_what_fits(cluster: Cluster, tmp_path: Path) -> None:
    for blueprint in (
        TRAINING,
        of_machines(TRAINING, 4),
        decision("a3-ultragpu-8g", "single-node", "flex-start"),
        decision("a4-highgpu-8g", "multi-node", "reservation"),
        decision("g2-standard-8", "single-node", "on-demand"),
        decision("dgx-h200", "multi-node"),
        spread_tensorrt(),
    ):
        code, said = tried(cluster, script(blueprint), tmp_path)
        assert code == 0, f"{blueprint.machine.name}: {said}"
    code, said = tried(cluster, script(settings=replace(SETTINGS, partition="a3u", switches=1)), tmp_path)
    assert code == 0, said


@needs_slurm
def test_slurm_refuses_what_does_not_fit(cluster: Cluster, tmp_path: Path) -> None:
    too_many = of_machines(TRAINING, 5)
    too_close = replace(SETTINGS, switches=1)
    for blueprint, settings in (
        (too_many, SETTINGS),
        (of_machines(TRAINING, 3), too_close),
        (decision("a2-megagpu-16g", "multi-node", "spot"), SETTINGS),
        (TRAINING, replace(SETTINGS, partition="none")),
    ):
        code, said = tried(cluster, script(blueprint, settings), tmp_path)
        assert code != 0, said


def finished(cluster: Cluster, job: str) -> str:
    """The state of a job when it is over."""
    for _ in range(120):
        said = cluster.run("scontrol", "show", "job", job).stdout
        found = re.search(r"JobState=(\w+)", said)
        if found and found.group(1) not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
            return found.group(1)
        time.sleep(0.5)
    raise AssertionError(said)


@needs_slurm
def test_the_job_runs_on_every_node_with_its_rank(cluster: Cluster, tmp_path: Path) -> None:
    blueprint = of_machines(decision("g2-standard-8", "multi-node", "spot"), 4)  # without a plugin to source
    program = "echo rank=$NODE_RANK count=$NODE_COUNT master=$MASTER_ADDR keep=$CHECKPOINT_DIR tp=$PLAN_TENSOR_PARALLEL"
    text = script(blueprint, replace(SETTINGS, framework="command", program=program, switches=2))
    (tmp_path / "job.sbatch").write_text(text)
    sent = cluster.run("sbatch", "--parsable", f"--chdir={tmp_path}", str(tmp_path / "job.sbatch"))
    assert sent.returncode == 0, sent.stderr
    state = finished(cluster, sent.stdout.strip())
    said = "".join(path.read_text() for path in tmp_path.glob("*.out"))
    assert state == "COMPLETED", said
    ranks = sorted(int(rank) for rank in re.findall(r"rank=(\d+) count=4 master=a3u-0 keep=\S+/checkpoints tp=1", said))
    assert ranks == [0, 1, 2, 3]
    assert not list(tmp_path.glob(".begun-*"))


@needs_slurm
def test_a_job_that_failed_starts_again(cluster: Cluster, tmp_path: Path) -> None:
    program = (
        f'if [ ! -e {tmp_path}/tried ]; then touch {tmp_path}/tried; exit 7; fi; echo "again $SLURM_RESTART_COUNT"'
    )
    blueprint = decision("g2-standard-8", "single-node", "spot")
    text = script(blueprint, replace(SETTINGS, framework="command", program=program))
    (tmp_path / "job.sbatch").write_text(text)
    sent = cluster.run("sbatch", "--parsable", f"--chdir={tmp_path}", str(tmp_path / "job.sbatch"))
    job = sent.stdout.strip()
    for _ in range(40):  # Slurm holds a job back for a while after it was put into the queue again
        said = "".join(path.read_text() for path in tmp_path.glob("*.out"))
        if "it starts again" in said:
            break
        time.sleep(0.5)
    assert "the program ended with 7: it starts again from its last checkpoint" in said
    time.sleep(1)
    shown = cluster.run("scontrol", "show", "job", job).stdout
    cluster.run("scancel", job)
    assert "Requeue=1" in shown
    assert re.search(r"Restarts=1\b", shown), shown
    assert list(tmp_path.glob(f".begun-{job}"))
