"""Every published topology and addressing row of `designs.csv`, the errata of its sources corrected."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.fabric.address_plan import address_plan, subflow_prefixes
from gpuyard.fabric.clos import Clos, Leaf
from gpuyard.fabric.clos_fit import ClosFit, fit
from gpuyard.fabric.demand import Demand, Pools, Scheme, Tenant
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Device, Fabric
from gpuyard.fabric.size import Size, Sizing, size

Row = dict[str, Any]
FILE = Path(__file__).parent / "designs.csv"
TWO_PLANES = 2


def rows(design: str) -> list[Any]:
    """The rows of one design, each named by its input."""
    with FILE.open(encoding="utf-8", newline="") as file:
        matching = [row for row in csv.DictReader(file) if row["design"] == design]
    assert matching, design
    return [
        pytest.param(json.loads(row["input"]), json.loads(row["expected"]), id=row["input"][:60])
        for row in matching
    ]


def sized(**sizing: Any) -> Size:
    """The size, which must be feasible."""
    result = size(Sizing(**sizing))
    assert isinstance(result, Size), result
    return result


def agree(result: Size, expected: Row, *names: str) -> None:
    """Compare the counts of a row."""
    for name in names:
        if name in expected:
            assert getattr(result, name) == expected[name], name


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


@pytest.mark.parametrize(("given", "expected"), rows("jvd_stripe_max"))
def test_largest_stripe_matches_the_published_table(
    given: Row, expected: Row, catalog: Catalog
) -> None:
    result = sized(nodes=expected["servers"], rails=given["rails"], radix=given["leaf_ports_400g"])
    assert (result.stripes, result.leaves, result.servers_per_stripe) == (
        1,
        expected["leaves"],
        expected["servers"],
    )
    assert result.gpus == expected["gpus"]
    switch = catalog.switch(given["leaf_model"])
    demand = Demand(server_count=expected["servers"], nic_bits_per_s=400e9)
    parts = fit(demand, switch, switch, None)
    assert isinstance(parts, ClosFit)
    assert parts.size.servers_per_stripe == expected["servers"]


@pytest.mark.parametrize(("given", "expected"), rows("jvd_scaling"))
def test_scaling_table_matches(given: Row, expected: Row) -> None:
    chassis = 512 if given["spine"].startswith("PTX") else None
    result = sized(nodes=given["stripes"] * 64, radix=128, spine_radix=chassis)
    assert (result.stripes, result.nodes) == (given["stripes"], expected["servers"])
    agree(result, expected, "gpus", "leaves", "spines")


@pytest.mark.parametrize(("given", "expected"), rows("jvd_oversub"))
def test_oversubscription_table_matches(given: Row, expected: Row) -> None:
    rails = given["nics_per_server"]
    stripes = given["leaves"] // rails
    result = sized(
        nodes=given["servers"],
        rails=rails,
        radix=64,
        servers_per_stripe=given["servers"] // stripes,
        spines=given["spines"],
        links_per_pair=given["links_per_leaf_spine"],
        uplink_ratio=given["uplink_gbps"] / given["nic_gbps"],
    )
    assert result.leaves == given["leaves"]
    assert result.oversubscription_ratio == pytest.approx(expected["oversub_ratio"])
    assert result.uplinks_per_leaf * given["uplink_gbps"] == expected["leaf_uplink_gbps"]
    assert result.leaf_spine_cables * given["uplink_gbps"] / 1000 == pytest.approx(
        expected["fabric_uplink_tbps"]
    )
    assert result.node_leaf_cables * given["nic_gbps"] / 1000 == pytest.approx(
        expected["server_tbps"]
    )


@pytest.mark.parametrize(("given", "expected"), rows("apstra_template"))
def test_apstra_template_matches(given: Row, expected: Row) -> None:
    ratio = given["uplink_gbps"] / given["nic_gbps"]
    result = sized(
        nodes=given["stripes"] * given["servers_per_stripe"],
        radix=int(32 * ratio),
        servers_per_stripe=given["servers_per_stripe"],
        spines=given["spines"],
        links_per_pair=given["links_per_leaf_spine"],
        uplink_ratio=ratio,
        spine_radix=int(given["spine_ports"] * ratio),
    )
    agree(result, expected, "gpus", "leaves", "uplinks_per_leaf")
    assert result.nodes == expected["servers"]
    assert result.leaf_spine_cables == expected["leaf_spine_links"]
    assert result.leaf_spine_cables // result.spines == expected["spine_ports_used"]
    assert result.oversubscription_ratio == pytest.approx(expected["oversub_ratio"])


@pytest.mark.parametrize(("given", "expected"), rows("superpod_h100_ib"))
def test_superpod_h100_reserves_one_slot_for_the_subnet_manager(given: Row, expected: Row) -> None:
    nodes = given["su"] * given["nodes_per_su"] - given["ufm_slot_nodes"]
    result = sized(nodes=nodes, rails=given["gpus_per_node"], radix=given["radix"])
    agree(result, expected, "nodes", "gpus", "leaves", "spines", "leaf_spine_cables")
    assert result.node_leaf_cables + 4 == expected["node_leaf_plus_ufm_cables"]


@pytest.mark.parametrize(
    ("given", "expected"), rows("superpod_b200_ib") + rows("superpod_b300_xdr")
)
def test_infiniband_superpods_match(given: Row, expected: Row) -> None:
    tiers = str(given.get("tiers", "auto"))
    nodes = given["su"] * given["nodes_per_su"]
    for asked in ("auto", tiers):
        result = sized(nodes=nodes, rails=given["gpus_per_node"], radix=given["radix"], tiers=asked)
        agree(result, expected, *expected)


@pytest.mark.parametrize(("given", "expected"), rows("superpod_b300_ethernet"))
def test_superpod_b300_with_two_planes_matches(given: Row, expected: Row, catalog: Catalog) -> None:
    nodes = given["su"] * given["nodes_per_su"]
    result = sized(nodes=nodes, radix=given["radix_800g"], planes=given["planes"])
    agree(result, expected, *expected)
    fabric = design(
        Demand(server_count=64, nic_bits_per_s=800e9, planes=TWO_PLANES, leaf="sn5600"), catalog
    )
    assert isinstance(fabric, Fabric)
    assert fabric.size == sized(nodes=64, radix=64, planes=TWO_PLANES)


@pytest.mark.parametrize(("given", "expected"), rows("superpod_h100_512node"))
def test_three_tiers_match_an_independent_calculation(given: Row, expected: Row) -> None:
    result = sized(nodes=given["servers"], radix=given["radix"], tiers=str(given["tiers"]))
    agree(result, expected, *expected)


@pytest.mark.parametrize(("given", "expected"), rows("two_tier_max_endpoints"))
def test_reach_of_two_tiers_matches(given: Row, expected: Row) -> None:
    nodes = expected["max_gpus"] // 8
    result = sized(nodes=nodes, radix=given["radix"], tiers="2")
    assert (result.gpus, result.stripes) == (expected["max_gpus"], expected["max_stripes_8_rails"])
    assert result.most_nodes == nodes
    assert not isinstance(size(Sizing(nodes=nodes + 1, radix=given["radix"], tiers="2")), Size)


@pytest.mark.parametrize(("given", "expected"), rows("hpn"))
def test_alibaba_hpn_matches(given: Row, expected: Row) -> None:
    result = sized(
        nodes=given["segments"] * given["servers_per_segment"],
        rails=given["rails"],
        radix=given["radix_400g"],
        planes=given["planes"],
        servers_per_stripe=given["servers_per_segment"],
        spines=given["uplinks"],
        links_per_pair=1,
        uplink_ratio=given["planes"] * given["uplink_gbps"] / given["nic_gbps"],
    )
    agree(result, expected, "gpus", "leaves", "spines", "uplinks_per_leaf")
    assert result.oversubscription_ratio == pytest.approx(expected["oversub_ratio"], abs=1e-4)


def _jvd(catalog: Catalog) -> Fabric:
    """The validated multitenancy design: QFX5240, Juniper's own numbers."""
    tenants = (Tenant(name="tenant-1", first_server=1, server_count=1),)
    demand = Demand(
        server_count=2,
        rails=4,
        gpus_per_server=4,
        nic_bits_per_s=400e9,
        leaf="qfx5240",
        shape="two-tier",
        pools=Pools(scheme="jvd"),
        tenancy="server",
        tenants=tenants,
    )
    fabric = design(demand, catalog)
    assert isinstance(fabric, Fabric)
    return fabric


@pytest.mark.parametrize(("given", "expected"), rows("jvd_addressing_p2p"))
def test_server_addresses_match_the_validated_design(
    given: Row, expected: Row, catalog: Catalog
) -> None:
    fabric = _jvd(catalog)
    leaf = fabric.of_role("leaf")[given["leaf"] - 1]
    server = fabric.servers[given["server"] - 1]
    nic = next(port for port in server.interfaces if port.port == given["nic"])
    assert (leaf.interfaces[0].address, nic.address) == (expected["leaf_ip"], expected["nic_ip"])
    assert (nic.peer.node, nic.peer.port) == (leaf.name, "et-0/0/0:0")


@pytest.mark.parametrize(("given", "expected"), rows("jvd_asn"))
def test_asns_and_loopbacks_match_the_validated_design(
    given: Row, expected: Row, catalog: Catalog
) -> None:
    fabric = _jvd(catalog)
    spines, leaves = fabric.of_role("spine"), fabric.of_role("leaf")
    assert given
    assert [spine.asn for spine in spines] == expected["spine"]
    assert [leaf.asn for leaf in leaves] == expected["leaf"]
    assert _span(spines) == expected["spine_lo"]
    assert _span(leaves) == expected["leaf_lo"]
    vrf = fabric.vrfs[0]
    assert f"{vrf.vni}+" == expected["vni"]
    assert vrf.route_target == expected["rt"].replace("<vni>", str(vrf.vni))
    wanted = expected["rd"].replace("<lo0>", leaves[0].loopback).replace("<vni>", str(vrf.vni))
    assert vrf.route_distinguisher(leaves[0]) == wanted


def _span(devices: tuple[Device, ...]) -> str:
    """The loopbacks as a span, 10.0.0.8-11."""
    last = (devices[-1].loopback or "").rsplit(".", 1)[1]
    return f"{devices[0].loopback}-{last}"


@pytest.mark.parametrize(("given", "expected"), rows("apstra_pools"))
def test_apstra_pools_match(given: Row, expected: Row) -> None:
    purposes = {"mgmt": "frontend", "storage": "storage", "gpu": "backend"}
    scheme: Scheme = "apstra"
    leaf = Leaf(servers=8, uplinks=4, ratio=1.0)
    clos = Clos(
        tiers=2,
        rails=2,
        leaf=leaf,
        stripes=1,
        final_stripes=1,
        leaves=2,
        spines=2,
        stripes_per_pod=1,
        spines_per_pod=2,
        links_per_pair=2,
        spine_links=32,
    )
    for index, name in zip(given["blueprint_index"], given["order"], strict=True):
        demand = Demand(
            server_count=1, nic_bits_per_s=1e11, purpose=purposes[name], pools=Pools(scheme=scheme)
        )  # type: ignore[arg-type]
        numbers = address_plan(demand, clos)
        assert numbers.spine_asn == expected["spine_asn_first"][index]
        assert numbers.leaf_asn == expected["leaf_asn_first"][index]
        assert numbers.leaf_asn - numbers.spine_asn == expected["asn_pool_size"]
        assert f"10.0.{numbers.spine_loopback >> 8 & 255}.0/24" == expected["ipv4_first24"][index]


@pytest.mark.parametrize(("given", "expected"), rows("jvd_rlb_prefixes"))
def test_subflow_prefixes_match_the_validated_design(
    given: Row, expected: Row, catalog: Catalog
) -> None:
    assert list(subflow_prefixes(0, 0, given["subflows"])) == expected["prefixes"]
    fabric = design(
        Demand(server_count=2, nic_bits_per_s=400e9, leaf="qfx5240", subflows=given["subflows"]),
        catalog,
    )
    assert isinstance(fabric, Fabric)
    assert list(fabric.of_role("leaf")[0].prefixes) == expected["prefixes"]
