"""Cluster Director: the request, and that it agrees with the batch script."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.cluster_director import CLUSTER_DIRECTOR
from gpuyard.workload import ConsumptionName

from .decisions import SETTINGS, at, body_of, decision, file_of, made


@pytest.mark.parametrize(
    ("way", "key"),
    [
        ("on-demand", "newOnDemandInstances"),
        ("spot", "newSpotInstances"),
        ("flex-start", "newFlexStartInstances"),
        ("reservation", "newReservedInstances"),
    ],
)
def test_each_way_of_paying_is_one_kind_of_capacity(way: ConsumptionName, key: str) -> None:
    body = body_of(made(CLUSTER_DIRECTOR, decision("a3-megagpu-8g", "multi-node", way)), "50-cluster.json")
    config = at(body, "computeResources", "gpus", "config")
    assert isinstance(config, dict)
    assert list(config) == [key]


def test_nodes_come_with_the_job_and_see_its_folders() -> None:
    found = made(CLUSTER_DIRECTOR, decision("a4-highgpu-8g", "multi-node", "flex-start"))
    nodes = at(body_of(found, "50-cluster.json"), "orchestrator", "slurm", "nodeSets", 0)
    assert at(nodes, "maxDynamicNodeCount") == "2"
    assert isinstance(nodes, dict)
    assert "staticNodeCount" not in nodes
    mounted = {row["localMount"] for row in nodes["storageConfigs"]}  # type: ignore[union-attr, index, call-overload]
    assert mounted == {"/home", "/mnt/checkpoints", "/mnt/data"}
    script = file_of(found, "80-job.sbatch").text
    assert "#SBATCH --partition=gpu" in script
    assert "export CHECKPOINT_DIR=/mnt/checkpoints/" in script
    assert "export DATA_DIR=/mnt/data/tokens" in script  # whole buckets are mounted


def test_a_network_and_a_reservation_that_exist_are_used() -> None:
    settings = replace(SETTINGS, network="shared", reservation="mine/reservationBlocks/b1", bucket="kept")
    found = made(CLUSTER_DIRECTOR, decision("a3-ultragpu-8g", "multi-node", "reservation"), settings)
    body = body_of(found, "50-cluster.json")
    network = at(body, "networkResources", "net", "config", "existingNetwork", "subnetwork")
    assert network == "projects/my-project/regions/us-central1/subnetworks/shared"
    reserved = at(body, "computeResources", "gpus", "config", "newReservedInstances", "reservation")
    assert str(reserved).endswith("/reservations/mine")
    assert any("block" in note for note in found.notes)
    assert not any(file.name == "05-bucket.json" for file in found.files)


def test_machines_without_a_template_go_to_the_toolkit() -> None:
    found = CLUSTER_DIRECTOR.render(decision("a3-highgpu-8g", "multi-node", "spot"), SETTINGS)
    assert isinstance(found, Unsuitable)
    assert found.nearest == "cluster-toolkit"
    own = CLUSTER_DIRECTOR.render(decision("dgx-h100", "multi-node"), SETTINGS)
    assert isinstance(own, Unsuitable)
    assert own.nearest == "slurm"


def test_what_no_server_ends_is_said() -> None:
    assert made(CLUSTER_DIRECTOR, decision("a4-highgpu-8g", "multi-node", "spot")).unended == "the cluster"
