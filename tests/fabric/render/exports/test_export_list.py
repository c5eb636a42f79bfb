"""Exports: every format is complete, and its references resolve."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import cache

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.exports.export_list import EXPORTS
from gpuyard.fabric.render.site import Site

SITE = Site(management_prefix="192.0.2.0/24", gateway="192.0.2.1", ntp_servers=("192.0.2.2",))


@cache
def fabric(os: str = "sonic") -> Fabric:
    result = design(
        Demand(
            server_count=3, rails=2, nic_bits_per_s=400e9, leaf="sn5600", os=os, shape="two-tier"
        ),
        load_catalog(),
    )
    assert isinstance(result, Fabric), result
    return result


def exported(form: str, os: str = "sonic") -> dict[str, str]:
    return {file.path: file.text for file in EXPORTS[form](fabric(os), SITE, load_catalog())}


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("form", EXPORTS)
def test_every_switch_is_in_every_format_but_the_alerts(form: str) -> None:
    text = "".join(exported(form).values())
    if form != "prometheus":
        assert all(device.name in text for device in fabric().switches)


def test_netbox_files_refer_to_earlier_files() -> None:
    files = exported("netbox")
    tables = {
        path.split("-", 1)[1].removesuffix(".csv"): rows(text) for path, text in files.items()
    }
    models = {(row["manufacturer"], row["model"]) for row in tables["device-types"]}
    ports = {(row["device"], row["name"]) for row in tables["interfaces"]}
    devices = {row["name"] for row in tables["devices"]}
    assert {(row["manufacturer"], row["device_type"]) for row in tables["devices"]} == models
    assert {device for device, _ in ports} == devices
    assert all((row["device"], row["interface"]) in ports for row in tables["ip-addresses"])
    cables = tables["cables"]
    assert len(cables) == len(fabric().topology.links)
    for row in cables:
        assert (row["side_a_device"], row["side_a_name"]) in ports
        assert (row["side_b_device"], row["side_b_name"]) in ports
    primary = [row["device"] for row in tables["ip-addresses"] if row["is_primary"] == "true"]
    assert sorted(primary) == sorted(device.name for device in fabric().switches)


def test_ansible_and_nornir_name_the_management_addresses() -> None:
    files = exported("ansible")
    inventory = json.loads(files["ansible/inventory.yml"])["all"]
    hosts = json.loads(files["nornir/hosts.yaml"])
    for switch, address in SITE.addresses(fabric()).items():
        role = hosts[switch]["groups"][0]
        assert hosts[switch]["hostname"] == address
        assert inventory["children"][role]["hosts"][switch]["ansible_host"] == address


def test_netlab_has_every_link_with_its_addresses() -> None:
    topology = json.loads(exported("netlab")["netlab/topology.yml"])
    ends = [end for link in topology["links"] for end in link["interfaces"]]
    assert len(topology["links"]) == len(fabric().topology.links)
    assert {end["node"] for end in ends} == set(topology["nodes"])
    addresses = {port.address for one in fabric().devices for port in one.interfaces}
    assert {end["ipv4"] for end in ends} == addresses


def test_netlab_refuses_names_that_it_cannot_use() -> None:
    device = replace(fabric().switches[0], name="a-spine-with-a-long-name")
    long = replace(fabric(), devices=(device, *fabric().devices[1:]))
    with pytest.raises(InputError, match="longer than 16"):
        list(EXPORTS["netlab"](long, SITE, load_catalog()))


@pytest.mark.parametrize("os", ["sonic", "cumulus"])
def test_alerts_cover_what_breaks_a_lossless_fabric(os: str) -> None:
    rules = json.loads(exported("prometheus", os)["prometheus/fabric-alerts.yml"])["groups"][0][
        "rules"
    ]
    assert [rule["alert"] for rule in rules] == [
        "PfcStorm", "LosslessDiscards", "EcnRate", "LinkFlap", "BgpSessionDown",
    ]  # fmt: skip
    # 400 Gb/s over 65,535 x 512 bits is 11,921 pauses per second, one after the other.
    assert rules[0]["expr"].endswith("> 1192")


def test_gnmic_subscribes_and_holds_no_password() -> None:
    config = json.loads(exported("gnmic")["gnmic/gnmic.yaml"])
    assert config["password"] == "${GNMIC_PASSWORD}"
    assert [target.split(":")[0] for target in config["targets"]] == list(
        SITE.addresses(fabric()).values()
    )
    used = config["outputs"]["prometheus"]["event-processors"]
    assert used == list(config["processors"])
