"""Cluster Director: the cluster request, and its agreement with the sbatch script."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.cluster_director.cluster_director_platform import CLUSTER_DIRECTOR
from gpuyard.workload.where import ConsumptionName

from .rendering import SETTINGS, at, blueprint_of, body_of, file_of, render, render_artefacts


@pytest.mark.parametrize(
    ("way", "key"),
    [
        ("on-demand", "newOnDemandInstances"),
        ("spot", "newSpotInstances"),
        ("flex-start", "newFlexStartInstances"),
        ("reservation", "newReservedInstances"),
    ],
)
def test_cluster_director_capacity_follows_consumption(way: ConsumptionName, key: str) -> None:
    body = body_of(
        render_artefacts(CLUSTER_DIRECTOR, blueprint_of("a3-megagpu-8g", "multi-node", way)),
        "50-cluster.json",
    )
    config = at(body, "computeResources", "gpus", "config")
    assert isinstance(config, dict)
    assert list(config) == [key]


def test_cluster_director_nodes_are_dynamic_and_mount_buckets() -> None:
    result = render_artefacts(
        CLUSTER_DIRECTOR, blueprint_of("a4-highgpu-8g", "multi-node", "flex-start")
    )
    nodes = at(body_of(result, "50-cluster.json"), "orchestrator", "slurm", "nodeSets", 0)
    assert at(nodes, "maxDynamicNodeCount") == "2"
    assert isinstance(nodes, dict)
    assert "staticNodeCount" not in nodes
    mounted = {row["localMount"] for row in nodes["storageConfigs"]}  # type: ignore[union-attr, index, call-overload]
    assert mounted == {"/home", "/mnt/checkpoints", "/mnt/data"}
    script = file_of(result, "80-job.sbatch").text
    assert "#SBATCH --partition=gpu" in script
    assert "export CHECKPOINT_DIR=/mnt/checkpoints/" in script
    assert "export DATA_DIR=/mnt/data/tokens" in script  # whole buckets are mounted


def test_cluster_director_uses_existing_network_and_reservation() -> None:
    settings = replace(
        SETTINGS, network="shared", reservation="mine/reservationBlocks/b1", bucket="kept"
    )
    result = render_artefacts(
        CLUSTER_DIRECTOR, blueprint_of("a3-ultragpu-8g", "multi-node", "reservation"), settings
    )
    body = body_of(result, "50-cluster.json")
    network = at(body, "networkResources", "net", "config", "existingNetwork", "subnetwork")
    assert network == "projects/my-project/regions/us-central1/subnetworks/shared"
    reserved = at(body, "computeResources", "gpus", "config", "newReservedInstances", "reservation")
    assert str(reserved).endswith("/reservations/mine")
    assert any("block" in note for note in result.notes)
    assert not any(file.name == "05-bucket.json" for file in result.files)


def test_cluster_director_without_template_suggests_cluster_toolkit() -> None:
    result = render(CLUSTER_DIRECTOR, blueprint_of("a3-highgpu-8g", "multi-node", "spot"), SETTINGS)
    assert isinstance(result, Unsuitable)
    assert result.nearest == "cluster-toolkit"
    own = render(CLUSTER_DIRECTOR, blueprint_of("dgx-h100", "multi-node"), SETTINGS)
    assert isinstance(own, Unsuitable)
    assert own.nearest == "slurm"


def test_cluster_director_reports_cluster_without_ttl() -> None:
    assert (
        render_artefacts(
            CLUSTER_DIRECTOR, blueprint_of("a4-highgpu-8g", "multi-node", "spot")
        ).without_ttl
        == "the cluster"
    )
