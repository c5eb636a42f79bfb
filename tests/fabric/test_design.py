"""From a demand to a fabric: shapes, wiring, growth, numbers, tenants, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.catalog import Catalog, load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric import Cables, Demand, Fabric, Pools, Shape, Sizing, Tenant, design, size
from gpuyard.topology import Wiring, path_count

CATALOG = load_catalog()
H100 = Demand(server_count=32, nic_bits_per_s=400e9, leaf="qfx5240")
SHAPES = (
    H100,
    replace(H100, leaf="sn5600", server_count=70, os="sonic"),
    replace(H100, leaf="sn5600", server_count=20, planes=2, nic_bits_per_s=800e9),
    replace(H100, uplink_bits_per_s=800e9),
    replace(H100, oversubscription_ratio=2.0),
    replace(H100, shape="rail-only"),
    replace(H100, shape="single-leaf", server_count=16),
    replace(H100, leaf="sn4700", spine="sn4700", core="sn5600", shape="three-tier", server_count=40, os="sonic",
            cables=Cables(server_m=2, spine_m=5, core_m=5)),
    replace(H100, leaf="qm9700"),
    replace(H100, addressing="unnumbered", grow_to_count=200),
)  # fmt: skip


def built(demand: Demand, catalog: Catalog = CATALOG) -> Fabric:
    """The fabric, which must be feasible."""
    found = design(demand, catalog)
    assert isinstance(found, Fabric), found
    return found


@pytest.mark.parametrize("demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}")
def test_counts_agree_with_what_is_wired(demand: Demand) -> None:
    fabric = built(demand)
    roles = Counter(node.role for node in fabric.topology.nodes)
    size = fabric.size
    assert (roles["leaf"], roles["spine"], roles["core"]) == (size.leaves, size.spines, size.cores)
    tiers = Counter(max(fabric.device(end.node).role for end in link.ends) for link in fabric.topology.links)
    assert sum(tiers.values()) == sum(len(device.interfaces) for device in fabric.devices) // 2
    links = Counter((device.role, port.peer_role) for device in fabric.devices for port in device.interfaces)
    assert links["server", "leaf"] == size.node_leaf_cables * demand.planes
    assert links["leaf", "spine"] == size.leaves * size.uplinks_per_leaf_and_plane
    assert links["spine", "core"] == size.spines * size.uplinks_per_spine


@pytest.mark.parametrize("demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}")
def test_rail_k_of_every_server_goes_to_leaf_k_of_its_stripe(demand: Demand) -> None:
    fabric = built(demand)
    devices = {device.name: device for device in fabric.devices}
    for server in fabric.servers:
        assert len(server.interfaces) == demand.rails * demand.planes
        for port in server.interfaces:
            leaf = devices[port.peer.node]
            assert leaf.stripe == server.stripe
            assert leaf.rail in (None, port.rail)
            assert leaf.plane in (None, port.plane)


@pytest.mark.parametrize("demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}")
def test_every_leaf_has_as_many_links_to_each_spine_of_its_pod(demand: Demand) -> None:
    fabric = built(demand)
    for leaf in fabric.of_role("leaf"):
        counts = Counter(port.peer.node for port in leaf.uplinks)
        assert set(counts.values()) <= {fabric.size.links_per_pair}
        assert len(counts) == fabric.size.spines_per_pod
    for spine in fabric.of_role("spine"):
        assert len(spine.uplinks) == fabric.size.uplinks_per_spine


@pytest.mark.parametrize("demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}")
def test_both_ends_of_a_cable_tell_the_same(demand: Demand) -> None:
    fabric = built(demand)
    ends = {(device.name, port.port): (device, port) for device in fabric.devices for port in device.interfaces}
    assert len(ends) == sum(len(device.interfaces) for device in fabric.devices)
    for (name, port_name), (device, port) in ends.items():
        far, back = ends[port.peer.node, port.peer.port]
        assert (back.peer.node, back.peer.port) == (name, port_name)
        assert (back.peer_role, back.speed_bits_per_s, back.plane) == (device.role, port.speed_bits_per_s, port.plane)
        if device.role != "server":
            assert back.peer_asn == (device.asn if far.role != "server" else None)
        if port.address is None:
            assert back.address is None
        else:
            assert back.address is not None
            assert (port.peer_address, back.peer_address) == (back.address[:-3], port.address[:-3])


@pytest.mark.parametrize("demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}")
def test_no_number_is_used_twice(demand: Demand) -> None:
    fabric = built(demand)
    asns = [device.asn for device in fabric.switches if device.asn is not None]
    loopbacks = [device.loopback for device in fabric.switches if device.loopback is not None]
    addresses = [port.address for device in fabric.devices for port in device.interfaces if port.address]
    numbers = (asns, loopbacks, [*addresses, *loopbacks])
    assert all(len(set(values)) == len(values) for values in numbers)
    assert bool(asns) == (fabric.demand.technology == "ethernet")


@pytest.mark.parametrize("demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}")
def test_the_same_demand_gives_the_same_fabric_and_the_completed_one_too(demand: Demand) -> None:
    fabric = built(demand)
    assert built(demand) == fabric
    again = built(fabric.demand)
    assert (again.topology, again.devices, again.size) == (fabric.topology, fabric.devices, fabric.size)


def test_servers_reach_each_other_over_every_spine() -> None:
    fabric = built(H100)
    wiring = Wiring.of(fabric.topology)
    assert path_count(wiring, "leaf-s1-r1", "leaf-s1-r2") == 4 * 16 * 16


@settings(max_examples=12)
@given(
    now=st.integers(min_value=1, max_value=40),
    more=st.integers(min_value=0, max_value=60),
    shape=st.sampled_from(["two-tier", "three-tier"]),
)
def test_growth_moves_no_cable_and_no_number(now: int, more: int, shape: Shape) -> None:
    demand = Demand(
        server_count=now, grow_to_count=now + more, nic_bits_per_s=400e9, leaf="sn4700", spine="sn4700", core="sn4700",
        shape=shape, rails=4, gpus_per_server=4, os="sonic", cables=Cables(server_m=2, spine_m=5, core_m=5),
    )  # fmt: skip
    if shape == "two-tier":
        demand = replace(demand, core=None)
    small, large = built(demand), built(replace(demand, server_count=now + more))
    assert set(small.topology.links) <= set(large.topology.links)
    later = {device.name: device for device in large.devices}
    for device in small.devices:
        grown = later[device.name]
        assert set(device.interfaces) <= set(grown.interfaces)
        assert replace(device, interfaces=()) == replace(grown, interfaces=())


def test_without_a_word_on_growth_a_larger_fabric_may_be_cabled_anew() -> None:
    small, large = built(H100), built(replace(H100, server_count=300))
    assert not set(small.topology.links) <= set(large.topology.links)


def test_sizes_agree_with_the_switch_of_the_same_radix() -> None:
    for servers in (1, 64, 65, 500, 1024):
        fabric = built(replace(H100, server_count=servers))
        assert fabric.size == size(Sizing(nodes=servers, radix=128))


def test_ports_carry_the_names_of_their_os() -> None:
    assert built(H100).of_role("leaf")[0].uplinks[0].port == "et-0/0/32:0"
    sonic = built(replace(H100, leaf="sn5600", os="sonic"))
    assert [port.port for port in sonic.of_role("leaf")[0].interfaces[:3]] == ["Ethernet0", "Ethernet4", "Ethernet8"]
    cumulus = built(replace(H100, leaf="sn5600", os="cumulus"))
    assert [port.port for port in cumulus.of_role("leaf")[0].interfaces[:3]] == ["swp1s0", "swp1s1", "swp2s0"]
    frr = built(replace(H100, leaf="sn5600", os="frr"))
    assert [port.port for port in frr.of_role("leaf")[0].interfaces[:2]] == ["eth1", "eth2"]
    chassis = built(replace(H100, server_count=1030))
    assert chassis.demand.spine == "ptx10008"
    assert chassis.of_role("spine")[0].interfaces[40].port == "et-1/0/4"


def test_downlinks_and_uplinks_may_run_at_different_speeds() -> None:
    fabric = built(replace(H100, uplink_bits_per_s=800e9))
    leaf = fabric.of_role("leaf")[0]
    assert {port.speed_bits_per_s for port in leaf.downlinks} == {400e9}
    assert {port.speed_bits_per_s for port in leaf.uplinks} == {800e9}
    assert (leaf.downlinks[0].port, leaf.uplinks[0].port) == ("et-0/0/0:0", "et-0/0/32")
    assert (len(leaf.uplinks), fabric.size.oversubscription_ratio) == (32, 1.0)


def test_unnumbered_links_have_no_address_and_servers_have_one() -> None:
    fabric = built(replace(H100, addressing="unnumbered"))
    leaf = fabric.of_role("leaf")[0]
    assert fabric.routing.unnumbered
    assert all(port.address is None for port in leaf.uplinks)
    assert all(port.address is not None for port in leaf.downlinks)


def test_private_asns_are_of_32_bits_where_those_of_16_do_not_suffice() -> None:
    assert {device.asn // 1000 for device in built(H100).switches if device.asn} == {65}
    many = built(replace(H100, server_count=2200))
    assert min(device.asn for device in many.switches if device.asn) >= 4_200_000_000


def test_fabrics_side_by_side_share_no_number() -> None:
    fabrics = [built(replace(H100, purpose=purpose, rails=2)) for purpose in ("backend", "storage", "frontend")]
    asns = [device.asn for fabric in fabrics for device in fabric.switches]
    addresses = [port.address for fabric in fabrics for device in fabric.devices for port in device.interfaces]
    names = [device.name for fabric in fabrics for device in fabric.switches]
    for numbers in (asns, addresses, names):
        assert len(set(numbers)) == len(numbers)


def test_tenants_of_whole_servers() -> None:
    tenants = (Tenant(name="blue", first_server=1, server_count=2), Tenant(name="red", first_server=3, server_count=1))
    fabric = built(replace(H100, tenancy="server", tenants=tenants))
    for leaf in fabric.of_role("leaf"):
        assert [port.vrf for port in leaf.downlinks[:4]] == ["blue", "blue", "red", None]
        assert {port.vrf for port in leaf.uplinks} == {None}
    assert [vrf.vni for vrf in fabric.vrfs] == [20001, 20002]
    assert fabric.routing.overlay_bfd is not None


def test_tenants_of_single_gpus() -> None:
    tenants = (
        Tenant(name="blue", first_server=1, server_count=2, rails=(0, 1)),
        Tenant(name="red", first_server=1, server_count=2, rails=(2,)),
    )
    fabric = built(replace(H100, tenancy="gpu", tenants=tenants))
    first = [leaf.downlinks[0].vrf for leaf in fabric.of_role("leaf")]
    assert first == ["blue", "blue", "red", None, None, None, None, None]


REFUSED = [
    (replace(H100, rails=7), "rails", "use 4 or 8"),
    (replace(H100, leaf="qfx5241"), "leaf", "qfx5240"),
    (replace(H100, machine="a3-ultragpu-8g"), "machine", "bought"),
    (replace(H100, os="sonic"), "leaf", "junos"),
    (replace(H100, spine="sn5600"), "os", "share one"),
    (replace(H100, host_mtu_bytes=9200), "host_mtu_bytes", "at most 9,170"),
    (replace(H100, grow_to_count=3), "grow_to_count", "final number"),
    (replace(H100, links_per_pair=2), "links_per_pair", "spine_count"),
    (replace(H100, tenancy="server"), "tenants", "name the tenants"),
    (replace(H100, tenants=(Tenant(name="a", first_server=1, server_count=1),)), "tenants", "tenancy"),
    (replace(H100, tenancy="server", tenants=(Tenant(name="a", first_server=30, server_count=9),)), "tenants[0]", "fewer"),
    (replace(H100, pools=Pools(server="10.200.0.0/24")), "pools.server", "length 22"),
    (replace(H100, pools=Pools(server="10.128.0.0/12")), "pools", "prefix of its own"),
    (replace(H100, pools=Pools(leaf_asn=64512, spine_asn=64510)), "pools.leaf_asn", "move"),
    (replace(H100, pools=Pools(spine_loopback="ten")), "pools.spine_loopback", "10.0.0.8"),
]  # fmt: skip


@pytest.mark.parametrize(("demand", "where", "fix"), REFUSED, ids=[f"{row[1]}-{n}" for n, row in enumerate(REFUSED)])
def test_a_wrong_demand_is_told_with_its_fix(demand: Demand, where: str, fix: str) -> None:
    with pytest.raises(InputError) as caught:
        design(demand, CATALOG)
    (problem,) = caught.value.problems
    assert problem.where == where
    assert fix in problem.fix


def test_more_servers_than_the_switch_reaches_are_refused_with_a_design_that_works() -> None:
    refused = design(
        replace(H100, leaf="qfx5220-32cd", spine="qfx5220-32cd", shape="two-tier", server_count=65), CATALOG
    )
    assert isinstance(refused, Infeasible)
    assert "64 servers" in refused.what
    assert "this works: 16 " in refused.fix


def test_a_speed_that_the_switch_lacks_is_refused() -> None:
    refused = design(replace(H100, nic_bits_per_s=100e9), CATALOG)
    assert isinstance(refused, Infeasible)
    assert (refused.binding, "400Gbps, 800Gbps" in refused.fix) == ("speed", True)


def test_a_switch_is_chosen_when_none_is_named_and_the_others_are_told() -> None:
    fabric = built(replace(H100, leaf=None, server_count=128))
    assert fabric.demand.leaf == "sn5600"
    whys = {rejected.name: rejected.why for rejected in fabric.rejected}
    assert whys["qfx5230-64cd"] == "48 switches against 24"
    assert "400Gbps" in whys["sn3700"]
    assert set(whys) | {"sn5600"} == {
        switch.name for switch in CATALOG.switches if "leaf" in switch.roles and switch.technology == "ethernet"
    }


def test_the_policy_of_four_spines_is_told() -> None:
    few = replace(H100, rails=2, gpus_per_server=2)
    assert any("min_spines" in reason for reason in built(few).reasons)
    assert built(replace(few, min_spines=1)).size.spines == 1
