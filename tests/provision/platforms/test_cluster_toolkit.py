"""Cluster Toolkit: networks, nodes and scripts of the blueprint."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.invariants.facts import read_facts
from gpuyard.provision.platforms.cluster_toolkit import CLUSTER_TOOLKIT
from gpuyard.provision.platforms.cluster_toolkit.modules import escaped
from gpuyard.provision.settings import Settings
from gpuyard.workload import ConsumptionName

from .decisions import SETTINGS, decision, file_of, made


def modules(blueprint: Blueprint, settings: Settings = SETTINGS) -> dict[str, dict[str, Plain]]:
    """The settings of the modules by their ids."""
    tree = yaml.safe_load(file_of(made(CLUSTER_TOOLKIT, blueprint, settings), "50-blueprint.yaml").text)
    return {
        row["id"]: {"source": row["source"], "use": row.get("use", []), **row.get("settings", {})}
        for group in tree["deployment_groups"]
        for row in group["modules"]
    }


@pytest.mark.parametrize(
    "name", ["a3-highgpu-8g", "a3-megagpu-8g", "a3-ultragpu-8g", "a4-highgpu-8g", "a4x-highgpu-4g"]
)
def test_the_fabric_has_all_its_networks(name: str) -> None:
    fabric = read_facts().fabric(name)
    assert fabric is not None
    rows = modules(decision(name, "multi-node", "reservation"))
    if fabric.network_profile:
        template = rows["rdma_net"]["subnetworks_template"]
        assert isinstance(template, dict)
        assert template["count"] == fabric.data_nic_count
        assert str(rows["gpu_nodes"]["additional_networks"]).startswith("$(concat(net_1.")
    else:
        assert rows["gpu_nets"]["network_count"] == fabric.data_nic_count
        assert "gpu_nets" in rows["gpu_nodes"]["use"]  # type: ignore[operator]


def test_bare_metal_names_every_nic() -> None:
    nics = modules(decision("a4x-maxgpu-4g-metal", "multi-node", "reservation"))["gpu_nodes"]["additional_networks"]
    assert isinstance(nics, list)
    assert [nic.get("nic_type") for nic in nics] == [None, *["MRDMA"] * 8]  # type: ignore[union-attr]


def test_one_machine_needs_no_fabric() -> None:
    rows = modules(decision("a3-ultragpu-8g", "single-node", "spot"))
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
def test_one_way_of_paying(way: ConsumptionName, keys: set[str]) -> None:
    nodes = modules(decision("a3-megagpu-8g", "multi-node", way))["gpu_nodes"]
    assert {"enable_spot_vm", "dws_flex", "reservation_name"} & nodes.keys() == keys


def test_nodes_stand_close_where_that_can_be_asked_for() -> None:
    def near(name: str, way: ConsumptionName) -> tuple[Plain, Plain]:
        nodes = modules(decision(name, "multi-node", way))["gpu_nodes"]
        return nodes["enable_placement"], nodes.get("accelerator_topology")

    assert near("a4x-highgpu-4g", "reservation") == (True, "1x72")
    assert near("a3-ultragpu-8g", "flex-start") == (True, None)
    assert near("a3-megagpu-8g", "flex-start") == (False, None)  # flex-start with a distance: A3 Ultra, A4, H4D
    assert near("a3-megagpu-8g", "reservation") == (False, None)  # the reservation brings its policy
    assert near("g2-standard-96", "spot") == (False, None)


def test_arm_nodes_have_an_arm_head() -> None:
    rows = modules(decision("a4x-highgpu-4g", "multi-node", "reservation"))
    assert str(rows["image"]["source_image_family"]).startswith("ubuntu-accelerator-2404-arm64")
    assert rows["controller"]["machine_type"] == rows["login"]["machine_type"] == "c4a-standard-8"


def test_the_toolkit_takes_no_shell_for_a_reference() -> None:
    assert escaped('a=$(date) b="$x"') == 'a=\\$(date) b="$x"'
    for name in ("a3-megagpu-8g", "a3-ultragpu-8g", "a4x-highgpu-4g"):
        blueprint = decision(name, "multi-node", "reservation")
        text = file_of(made(CLUSTER_TOOLKIT, blueprint), "50-blueprint.yaml").text
        assert "\\$(" in text
        owners = set(re.findall(r"(?<!\\)\$\(([\w-]*)", text))
        assert owners <= {"vars", "concat", *modules(blueprint)}


def test_a_network_that_exists_is_used() -> None:
    rows = modules(decision("g2-standard-8", "single-node", "spot"), replace(SETTINGS, network="shared"))
    assert rows["net_0"]["source"] == "modules/network/pre-existing-vpc"
    assert rows["net_0"]["network_name"] == "shared"


def test_what_no_blueprint_confirms_is_said() -> None:
    found = made(CLUSTER_TOOLKIT, decision("n1-4xt4", "multi-node", "spot"))
    assert any("No blueprint of the Toolkit is published for n1-4xt4" in note for note in found.notes)
    nodes = modules(decision("n1-4xt4", "multi-node", "spot"))["gpu_nodes"]
    assert nodes["machine_type"] == "n1-standard-32"
    assert nodes["guest_accelerator"] == [{"type": "nvidia-tesla-t4", "count": 4}]
