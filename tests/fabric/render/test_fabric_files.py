"""All renderers alike: what every OS must hold, the tables, and the twin."""

from __future__ import annotations

import csv
import io
import re
import tracemalloc
from collections.abc import Callable

import pytest
import yaml

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.fabric.configs.audit import audit
from gpuyard.fabric.configs.read import ConfigText, read_configs
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.cabling.cabling_csv import cabling_csv, materials_csv
from gpuyard.fabric.render.containerlab.clab_topology import TWIN_NODES, containerlab_files
from gpuyard.fabric.render.fabric_files import render, render_switches
from gpuyard.fabric.render.switch_os_list import os_names

CATALOG = load_catalog()
OS = ("junos", "sonic", "cumulus", "eos", "nxos", "frr")
CASES = ("ipv4", "unnumbered", "tenants", "tenants-unnumbered", "frontend")


def texts(fabric: Fabric) -> dict[str, str]:
    """Return the files of each switch as one text."""
    texts: dict[str, str] = {}
    for file in render_switches(fabric):
        name = file.path.split("/")[1]
        texts[name] = texts.get(name, "") + file.text
    return texts


def test_every_os_has_a_contract_test() -> None:
    assert os_names() == OS


def test_every_catalog_switch_names_a_known_os() -> None:
    for switch in load_catalog().switches:
        assert set(switch.os) <= set(OS), switch.name


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("system", OS)
def test_switch_files_contain_names_addresses_and_neighbours(
    system: str, case: str, variants: Callable[[str], dict[str, Fabric]]
) -> None:
    """Every switch is there, with its name, numbers, ports, addresses, neighbours, mark and tenants."""
    fabric = variants(system)[case]
    written = texts(fabric)
    assert list(written) == [device.name for device in fabric.switches]
    for device in fabric.switches:
        text = written[device.name]
        assert re.search(rf"\b{device.name}\b", text)
        assert re.search(rf"\b{device.asn}\b", text)
        assert f"{device.loopback}/32" in text
        assert fabric.routing.from_above in text
        for port in device.interfaces:
            assert port.port in text
            assert port.description in text
            if system != "eos":  # its MTU is that of IP
                assert str(port.mtu_bytes) in text
            if port.address:
                assert port.address in text
            if port.peer_asn is not None and port.peer_address:
                assert port.peer_address in text
        for vrf in fabric.vrfs:
            here = any(port.vrf == vrf.name for port in device.interfaces)
            assert (str(vrf.vni) in text) == here
            assert (vrf.route_distinguisher(device) in text) == here


SHAPES: dict[str, dict[str, object]] = {
    "single leaf": {"shape": "single-leaf", "rails": 1, "gpus_per_server": 1},
    "rails only": {"shape": "rail-only"},
    "three tiers": {"shape": "three-tier", "server_count": 8, "oversubscription_ratio": 1.0},
    "two planes": {"planes": 2, "nic_bits_per_s": 800e9},
    "storage": {"purpose": "storage"},
}
SMALLEST = {"junos": "qfx5220-32cd", "eos": "7060x6-64pe", "nxos": "n9364d-gx2a"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("system", OS)
def test_every_shape_renders(system: str, shape: str, make: Callable[..., Fabric]) -> None:
    more = SHAPES[shape]
    if shape == "three tiers":  # the smallest switches keep it small
        switch = SMALLEST.get(system, "sn2700")
        more = more | {"leaf": switch, "spine": switch, "core": switch}
        more["nic_bits_per_s"] = 400e9 if system in SMALLEST else 100e9
    fabric = make(system, **more)
    written = texts(fabric)
    assert list(written) == [device.name for device in fabric.switches]
    for device in fabric.switches:
        text = written[device.name]
        groups = text.replace("TO-ABOVE", "").replace("FROM-ABOVE", "").upper()
        assert ("ABOVE" in groups) == bool(device.uplinks)
        for port in device.interfaces:
            assert port.description in text


@pytest.mark.parametrize("system", OS)
def test_unnumbered_links_have_no_addresses(
    system: str, variants: Callable[[str], dict[str, Fabric]]
) -> None:
    numbered, unnumbered = (texts(variants(system)[case]) for case in ("ipv4", "unnumbered"))
    for device in variants(system)["ipv4"].switches:
        links = [
            port.address for port in device.interfaces if port.peer_asn is not None and port.address
        ]
        assert links
        assert all(address in numbered[device.name] for address in links)
        assert not any(address in unnumbered[device.name] for address in links)


def test_cabling_csv_matches_the_topology(make: Callable[..., Fabric]) -> None:
    fabric = make("junos")
    rows = list(csv.DictReader(io.StringIO(cabling_csv(fabric))))
    cables = {
        frozenset(((row["a_node"], row["a_port"]), (row["b_node"], row["b_port"]))) for row in rows
    }
    assert cables == {
        frozenset(((link.a.node, link.a.port), (link.b.node, link.b.port)))
        for link in fabric.topology.links
    }
    lengths = {
        frozenset((link.a.node, link.b.node)): link.cable_m for link in fabric.topology.links
    }
    for row in rows:
        assert float(row["cable_m"]) == lengths[frozenset((row["a_node"], row["b_node"]))]
        assert row["a_node"] in row["a_label"].split(">")[0]
        assert row["b_node"] in row["b_label"].split(">")[0]


def test_materials_csv_counts_switches_and_cables(make: Callable[..., Fabric]) -> None:
    fabric = make("sonic")
    rows = list(csv.DictReader(io.StringIO(materials_csv(fabric, CATALOG))))
    switches = [row for row in rows if row["kind"] == "switch"]
    assert sum(int(row["count"]) for row in switches) == len(fabric.switches)
    assert sum(float(row["total_w"]) for row in switches) == 940 * len(fabric.switches)
    assert sum(int(row["count"]) for row in rows if row["kind"] == "cable") == len(
        fabric.topology.links
    )


@pytest.mark.parametrize("system", OS)
def test_twin_has_every_node_and_link(system: str, make: Callable[..., Fabric]) -> None:
    fabric = make(system)
    files = {file.path: file.text for file in containerlab_files(fabric)}
    lab = yaml.safe_load(files["twin/fabric.clab.yml"])["topology"]
    assert set(lab["nodes"]) == {device.name for device in fabric.devices}
    ends = [end for link in lab["links"] for end in link["endpoints"]]
    assert len(ends) == len(set(ends)) == 2 * len(fabric.topology.links)
    assert all(re.fullmatch(r"[a-z0-9-]+:eth[1-9][0-9]*", end) for end in ends)
    for name, node in lab["nodes"].items():
        for bind in node.get("binds", []):
            assert f"twin/{bind.split(':')[0]}" in files, name
    for device in fabric.switches:
        conf = files[f"twin/switches/{device.name}/frr.conf"]
        assert conf.count("\ninterface eth") == len(device.interfaces)


def test_twin_too_large_for_one_host_raises_input_error(make: Callable[..., Fabric]) -> None:
    fabric = make("sonic", server_count=TWIN_NODES)
    with pytest.raises(InputError, match="limit of 256"):
        list(containerlab_files(fabric))
    assert not any(file.path.startswith("twin/") for file in render(fabric, CATALOG))


def test_infiniband_has_no_switch_configuration() -> None:
    fabric = design(
        Demand(
            server_count=32,
            nic_bits_per_s=400e9,
            technology="infiniband",
            leaf="qm9700",
            spine="qm9700",
        ),
        CATALOG,
    )
    assert isinstance(fabric, Fabric)
    paths = {file.path for file in render(fabric, CATALOG)}
    assert {"cabling.csv", "materials.csv", "servers/nccl.env"} <= paths
    assert not any(path.startswith("switches/") for path in paths)


def test_files_are_rendered_lazily(make: Callable[..., Fabric]) -> None:
    """The most that is held is far below the whole text."""
    fabric = make("junos", server_count=256, oversubscription_ratio=1.0, min_spines=4)
    total = sum(len(file.text) for file in render_switches(fabric))
    tracemalloc.start()
    for _ in render_switches(fabric):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < total


@pytest.mark.parametrize("system", OS)
def test_every_variant_is_read_back_as_designed(
    system: str, variants: Callable[[str], dict[str, Fabric]]
) -> None:
    """Nothing in a rendered switch is unread, differs from the design or contradicts a neighbour."""
    for fabric in variants(system).values():
        files = render_switches(fabric)
        devices = read_configs([ConfigText(file=file.path, text=file.text) for file in files])
        assert not [one for device in devices for one in device.unread]
        assert audit(devices, fabric).findings == ()
        assert audit(devices).findings == ()
