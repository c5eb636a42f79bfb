"""Cluster Toolkit: networks, nodes and scripts of the blueprint file."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.invariants.facts import read_facts
from gpuyard.provision.platforms.cluster_toolkit.cluster_toolkit_platform import CLUSTER_TOOLKIT
from gpuyard.provision.platforms.cluster_toolkit.modules import escaped
from gpuyard.workload.where import ConsumptionName

from .rendering import SETTINGS, blueprint_of, file_of, render_artefacts


def modules(
    blueprint: Blueprint, settings: DeploymentSettings = SETTINGS
) -> dict[str, dict[str, Plain]]:
    """Return the settings of the modules by id."""
    tree = yaml.safe_load(
        file_of(render_artefacts(CLUSTER_TOOLKIT, blueprint, settings), "50-blueprint.yaml").text
    )
    return {
        row["id"]: {"source": row["source"], "use": row.get("use", []), **row.get("settings", {})}
        for group in tree["deployment_groups"]
        for row in group["modules"]
    }


@pytest.mark.parametrize(
    "name", ["a3-highgpu-8g", "a3-megagpu-8g", "a3-ultragpu-8g", "a4-highgpu-8g", "a4x-highgpu-4g"]
)
def test_cluster_toolkit_fabric_has_all_networks(name: str) -> None:
    fabric = read_facts().fabric(name)
    assert fabric is not None
    rows = modules(blueprint_of(name, "multi-node", "reservation"))
    if fabric.network_profile:
        template = rows["rdma_net"]["subnetworks_template"]
        assert isinstance(template, dict)
        assert template["count"] == fabric.data_nic_count
        assert str(rows["gpu_nodes"]["additional_networks"]).startswith("$(concat(net_1.")
    else:
        assert rows["gpu_nets"]["network_count"] == fabric.data_nic_count
        assert "gpu_nets" in rows["gpu_nodes"]["use"]  # type: ignore[operator]


def test_cluster_toolkit_bare_metal_lists_every_nic() -> None:
    nics = modules(blueprint_of("a4x-maxgpu-4g-metal", "multi-node", "reservation"))["gpu_nodes"][
        "additional_networks"
    ]
    assert isinstance(nics, list)
    assert [nic.get("nic_type") for nic in nics] == [None, *["MRDMA"] * 8]  # type: ignore[union-attr]


def test_cluster_toolkit_single_node_has_no_fabric() -> None:
    rows = modules(blueprint_of("a3-ultragpu-8g", "single-node", "spot"))
    assert not {"rdma_net", "net_1", "gpu_nets"} & rows.keys()
    assert rows["gpu_nodes"]["enable_placement"] is False


@pytest.mark.parametrize(
    ("way", "keys"),
    [
        ("on-demand", set()),
        ("spot", {"enable_spot_vm"}),
        ("flex-start", {"dws_flex"}),
        ("reservation", {"reservation_name"}),
    ],
)
def test_cluster_toolkit_sets_one_consumption_option(way: ConsumptionName, keys: set[str]) -> None:
    nodes = modules(blueprint_of("a3-megagpu-8g", "multi-node", way))["gpu_nodes"]
    assert {"enable_spot_vm", "dws_flex", "reservation_name"} & nodes.keys() == keys


def test_cluster_toolkit_uses_compact_placement_when_supported() -> None:
    def near(name: str, way: ConsumptionName) -> tuple[Plain, Plain]:
        nodes = modules(blueprint_of(name, "multi-node", way))["gpu_nodes"]
        return nodes["enable_placement"], nodes.get("accelerator_topology")

    assert near("a4x-highgpu-4g", "reservation") == (True, "1x72")
    assert near("a3-ultragpu-8g", "flex-start") == (True, None)
    assert near("a3-megagpu-8g", "flex-start") == (
        False,
        None,
    )  # flex-start with a distance: A3 Ultra, A4, H4D
    assert near("a3-megagpu-8g", "reservation") == (
        False,
        None,
    )  # the reservation has its own policy
    assert near("g2-standard-96", "spot") == (False, None)


def test_cluster_toolkit_arm_nodes_have_arm_controller() -> None:
    rows = modules(blueprint_of("a4x-highgpu-4g", "multi-node", "reservation"))
    assert str(rows["image"]["source_image_family"]).startswith("ubuntu-accelerator-2404-arm64")
    assert rows["controller"]["machine_type"] == rows["login"]["machine_type"] == "c4a-standard-8"


def test_cluster_toolkit_escapes_shell_substitutions() -> None:
    assert escaped('a=$(date) b="$x"') == 'a=\\$(date) b="$x"'
    for name in ("a3-megagpu-8g", "a3-ultragpu-8g", "a4x-highgpu-4g"):
        blueprint = blueprint_of(name, "multi-node", "reservation")
        text = file_of(render_artefacts(CLUSTER_TOOLKIT, blueprint), "50-blueprint.yaml").text
        assert "\\$(" in text
        owners = set(re.findall(r"(?<!\\)\$\(([\w-]*)", text))
        assert owners <= {"vars", "concat", *modules(blueprint)}


def test_cluster_toolkit_uses_existing_network() -> None:
    rows = modules(
        blueprint_of("g2-standard-8", "single-node", "spot"), replace(SETTINGS, network="shared")
    )
    assert rows["net_0"]["source"] == "modules/network/pre-existing-vpc"
    assert rows["net_0"]["network_name"] == "shared"


def test_cluster_toolkit_notes_unpublished_blueprints() -> None:
    result = render_artefacts(CLUSTER_TOOLKIT, blueprint_of("n1-4xt4", "multi-node", "spot"))
    assert any("no blueprint for n1-4xt4" in note for note in result.notes)
    nodes = modules(blueprint_of("n1-4xt4", "multi-node", "spot"))["gpu_nodes"]
    assert nodes["machine_type"] == "n1-standard-32"
    assert nodes["guest_accelerator"] == [{"type": "nvidia-tesla-t4", "count": 4}]
