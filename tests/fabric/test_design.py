"""From a demand to a fabric: shapes, wiring, growth, numbers, tenants, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.demand import AttachedHosts, CableLengths, Demand, Pools, Shape, Tenant
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import for_purpose, with_switches
from gpuyard.fabric.size import Sizing, size
from gpuyard.topology.wiring import Wiring

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
            cables=CableLengths(server_m=2, spine_m=5, core_m=5)),
    replace(H100, leaf="qm9700"),
    replace(H100, rails_per_leaf=2),
    replace(H100, leaf="sn5600", server_count=40, planes=2, rails_per_leaf=4, grow_to_count=70),
    replace(H100, shape="rail-only", rails_per_leaf=4),
    replace(for_purpose(H100, "storage"), attached=(AttachedHosts(name="vast", count=7),)),
    replace(for_purpose(H100, "management"), leaf="sn2201",
            attached=(AttachedHosts(name="switch", count=40),)),
    replace(H100, addressing="unnumbered", grow_to_count=200),
)  # fmt: skip


def built(demand: Demand, catalog: Catalog = CATALOG) -> Fabric:
    """The fabric, which must be feasible."""
    fabric = design(demand, catalog)
    assert isinstance(fabric, Fabric), fabric
    return fabric


@pytest.mark.parametrize(
    "demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}"
)
def test_size_agrees_with_the_topology(demand: Demand) -> None:
    fabric = built(demand)
    roles = Counter(node.role for node in fabric.topology.nodes)
    size = fabric.size
    assert (roles["leaf"], roles["spine"], roles["core"]) == (size.leaves, size.spines, size.cores)
    tiers = Counter(
        max(fabric.device(end.node).role for end in link.ends) for link in fabric.topology.links
    )
    assert sum(tiers.values()) == sum(len(device.interfaces) for device in fabric.devices) // 2
    links = Counter(
        (device.role, port.peer_role) for device in fabric.devices for port in device.interfaces
    )
    assert links["server", "leaf"] == size.node_leaf_cables * demand.planes
    assert links["leaf", "spine"] == size.leaves * size.uplinks_per_leaf_and_plane
    assert links["spine", "core"] == size.spines * size.uplinks_per_spine


@pytest.mark.parametrize(
    "demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}"
)
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


@pytest.mark.parametrize(
    "demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}"
)
def test_leaf_has_equal_links_to_each_spine_of_its_pod(demand: Demand) -> None:
    fabric = built(demand)
    for leaf in fabric.of_role("leaf"):
        counts = Counter(port.peer.node for port in leaf.uplinks)
        assert set(counts.values()) <= {fabric.size.links_per_pair}
        assert len(counts) == fabric.size.spines_per_pod
    for spine in fabric.of_role("spine"):
        assert len(spine.uplinks) == fabric.size.uplinks_per_spine


@pytest.mark.parametrize(
    "demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}"
)
def test_both_ends_of_a_cable_agree(demand: Demand) -> None:
    fabric = built(demand)
    ends = {
        (device.name, port.port): (device, port)
        for device in fabric.devices
        for port in device.interfaces
    }
    assert len(ends) == sum(len(device.interfaces) for device in fabric.devices)
    for (name, port_name), (device, port) in ends.items():
        far, back = ends[port.peer.node, port.peer.port]
        assert (back.peer.node, back.peer.port) == (name, port_name)
        assert (back.peer_role, back.speed_bits_per_s, back.plane) == (
            device.role,
            port.speed_bits_per_s,
            port.plane,
        )
        if device.role != "server":
            assert back.peer_asn == (device.asn if far.role != "server" else None)
        if port.address is None:
            assert back.address is None
        else:
            assert back.address is not None
            assert (port.peer_address, back.peer_address) == (back.address[:-3], port.address[:-3])


@pytest.mark.parametrize(
    "demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}"
)
def test_asns_and_addresses_are_unique(demand: Demand) -> None:
    fabric = built(demand)
    asns = [device.asn for device in fabric.switches if device.asn is not None]
    loopbacks = [device.loopback for device in fabric.switches if device.loopback is not None]
    addresses = [
        port.address for device in fabric.devices for port in device.interfaces if port.address
    ]
    numbers = (asns, loopbacks, [*addresses, *loopbacks])
    assert all(len(set(values)) == len(values) for values in numbers)
    assert bool(asns) == (fabric.demand.technology == "ethernet")


@pytest.mark.parametrize(
    "demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}"
)
def test_design_is_deterministic_and_idempotent(demand: Demand) -> None:
    fabric = built(demand)
    assert built(demand) == fabric
    again = built(fabric.demand)
    assert (again.topology, again.devices, again.size) == (
        fabric.topology,
        fabric.devices,
        fabric.size,
    )


def test_servers_reach_each_other_over_every_spine() -> None:
    fabric = built(H100)
    wiring = Wiring.of(fabric.topology)
    widths = [
        len(wiring.links_between("leaf-s1-r1", spine))
        * len(wiring.links_between(spine, "leaf-s1-r2"))
        for spine in wiring.neighbours("leaf-s1-r1")
        if wiring.node(spine).role == "spine"
    ]
    assert sum(widths) == 4 * 8 * 8


@settings(max_examples=12)
@given(
    now=st.integers(min_value=1, max_value=40),
    more=st.integers(min_value=0, max_value=60),
    shape=st.sampled_from(["two-tier", "three-tier"]),
)
def test_growth_keeps_cables_asns_and_addresses(now: int, more: int, shape: Shape) -> None:
    demand = Demand(
        server_count=now,
        grow_to_count=now + more,
        nic_bits_per_s=400e9,
        leaf="sn4700",
        spine="sn4700",
        core="sn4700",
        shape=shape,
        rails=4,
        gpus_per_server=4,
        os="sonic",
        cables=CableLengths(server_m=2, spine_m=5, core_m=5),
    )
    if shape == "two-tier":
        demand = replace(demand, core=None)
    small, large = built(demand), built(replace(demand, server_count=now + more))
    assert set(small.topology.links) <= set(large.topology.links)
    later = {device.name: device for device in large.devices}
    for device in small.devices:
        grown = later[device.name]
        assert set(device.interfaces) <= set(grown.interfaces)
        assert replace(device, interfaces=()) == replace(grown, interfaces=())


def test_growth_without_reservation_may_move_cables() -> None:
    small, large = built(H100), built(replace(H100, server_count=300))
    assert not set(small.topology.links) <= set(large.topology.links)


def test_sizes_agree_with_the_switch_of_the_same_radix() -> None:
    for servers in (64, 512, 1024):  # full leaves
        fabric = built(replace(H100, server_count=servers))
        assert fabric.size == size(Sizing(nodes=servers, radix=128))


def test_port_names_follow_the_os() -> None:
    assert built(H100).of_role("leaf")[0].uplinks[0].port == "et-0/0/48:0"
    sonic = built(replace(H100, leaf="sn5600", os="sonic"))
    assert [port.port for port in sonic.of_role("leaf")[0].interfaces[:3]] == [
        "Ethernet0",
        "Ethernet4",
        "Ethernet8",
    ]
    cumulus = built(replace(H100, leaf="sn5600", os="cumulus"))
    assert [port.port for port in cumulus.of_role("leaf")[0].interfaces[:3]] == [
        "swp1s0",
        "swp1s1",
        "swp2s0",
    ]
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
    assert (leaf.downlinks[0].port, leaf.uplinks[0].port) == ("et-0/0/0:0", "et-0/0/48")
    assert (len(leaf.uplinks), fabric.size.oversubscription_ratio) == (16, 1.0)


def test_unnumbered_links_have_no_address_and_servers_have_one() -> None:
    fabric = built(replace(H100, addressing="unnumbered"))
    leaf = fabric.of_role("leaf")[0]
    assert fabric.routing.unnumbered
    assert all(port.address is None for port in leaf.uplinks)
    assert all(port.address is not None for port in leaf.downlinks)


def test_large_fabric_uses_32_bit_private_asns() -> None:
    assert {device.asn // 1000 for device in built(H100).switches if device.asn} == {65}
    many = built(replace(H100, server_count=2200))
    assert min(device.asn for device in many.switches if device.asn) >= 4_200_000_000


def test_fabrics_of_different_purpose_share_no_asn_or_address() -> None:
    fabrics = [
        built(replace(H100, purpose=purpose, rails=2))
        for purpose in ("backend", "storage", "frontend")
    ]
    asns = [device.asn for fabric in fabrics for device in fabric.switches]
    addresses = [
        port.address
        for fabric in fabrics
        for device in fabric.devices
        for port in device.interfaces
    ]
    names = [device.name for fabric in fabrics for device in fabric.switches]
    for numbers in (asns, addresses, names):
        assert len(set(numbers)) == len(numbers)


def test_tenants_with_server_isolation() -> None:
    tenants = (
        Tenant(name="blue", first_server=1, server_count=2),
        Tenant(name="red", first_server=3, server_count=1),
    )
    fabric = built(replace(H100, tenancy="server", tenants=tenants))
    for leaf in fabric.of_role("leaf"):
        assert [port.vrf for port in leaf.downlinks[:4]] == ["blue", "blue", "red", None]
        assert {port.vrf for port in leaf.uplinks} == {None}
    assert [vrf.vni for vrf in fabric.vrfs] == [20001, 20002]
    assert fabric.routing.overlay_bfd is not None


def test_tenants_with_gpu_isolation() -> None:
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
    (replace(H100, machine="a3-ultragpu-8g"), "machine", "on-premises"),
    (replace(H100, os="sonic"), "leaf", "junos"),
    (replace(H100, spine="sn5600"), "os", "share one"),
    (replace(H100, host_mtu_bytes=9200), "host_mtu_bytes", "at most 9,170"),
    (replace(H100, grow_to_count=3), "grow_to_count", "final number"),
    (replace(H100, links_per_pair=2), "links_per_pair", "spine_count"),
    (replace(H100, tenancy="server"), "tenants", "list the tenants"),
    (replace(H100, tenants=(Tenant(name="a", first_server=1, server_count=1),)), "tenants", "tenancy"),
    (replace(H100, tenancy="server", tenants=(Tenant(name="a", first_server=30, server_count=9),)), "tenants[0]", "fewer"),
    (replace(H100, server_count=64, pools=Pools(server="10.200.0.0/24")), "pools.server", "length 22"),
    (replace(H100, pools=Pools(server="10.128.0.0/12")), "pools", "separate prefix"),
    (replace(H100, pools=Pools(leaf_asn=64512, spine_asn=64510)), "pools.leaf_asn", "move"),
    (replace(H100, pools=Pools(spine_loopback="ten")), "pools.spine_loopback", "10.0.0.8"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("demand", "where", "fix"), REFUSED, ids=[f"{row[1]}-{n}" for n, row in enumerate(REFUSED)]
)
def test_wrong_demand_raises_input_error_with_fix(demand: Demand, where: str, fix: str) -> None:
    with pytest.raises(InputError) as caught:
        design(demand, CATALOG)
    (problem,) = caught.value.problems
    assert problem.where == where
    assert fix in problem.fix


def test_too_many_servers_are_infeasible_with_an_alternative() -> None:
    refused = design(
        replace(H100, leaf="qfx5220-32cd", spine="qfx5220-32cd", shape="two-tier", server_count=65),
        CATALOG,
    )
    assert isinstance(refused, Infeasible)
    assert "64 servers" in refused.what
    assert "this works: 16 " in refused.fix


def test_unsupported_speed_is_infeasible() -> None:
    refused = design(replace(H100, nic_bits_per_s=100e9), CATALOG)
    assert isinstance(refused, Infeasible)
    assert (refused.binding, "400Gbps, 800Gbps" in refused.fix) == ("speed", True)


def test_switch_is_chosen_and_others_are_rejected_with_reasons() -> None:
    fabric = built(replace(H100, leaf=None, server_count=128))
    assert fabric.demand.leaf == "sn5600"
    whys = {rejected.name: rejected.why for rejected in fabric.rejected}
    assert whys["qfx5230-64cd"] == "48 switches against 24"
    assert "400Gbps" in whys["sn3700"]
    assert set(whys) | {"sn5600"} == {
        switch.name
        for switch in CATALOG.switches
        if "leaf" in switch.roles and switch.technology == "ethernet"
    }


def test_reasons_explain_the_minimum_of_four_spines() -> None:
    few = replace(H100, rails=2, gpus_per_server=2, shape="two-tier")
    assert any("min_spines" in reason for reason in built(few).reasons)
    assert built(replace(few, min_spines=1)).size.spines == 1


def test_small_cluster_is_one_switch() -> None:
    for servers in (1, 4, 16):
        fabric = built(Demand(server_count=servers, nic_bits_per_s=400e9))
        assert (fabric.size.switches, fabric.size.leaf_spine_cables) == (1, 0)
        assert fabric.demand.shape == "single-leaf"
    two = built(Demand(server_count=4, nic_bits_per_s=800e9, planes=2))
    assert (two.size.switches, two.size.leaf_spine_cables) == (2, 0)


def test_frontend_keeps_two_leaves_when_one_would_fit() -> None:
    demand = Demand(server_count=4, nic_bits_per_s=200e9, rails=2, purpose="frontend", min_spines=2)
    assert built(replace(demand, leaf="sn5600")).size.leaves == 2


@pytest.mark.parametrize(
    ("servers", "ratio", "uplinks", "spines"),
    [(32, 1.0, 32, 4), (64, 2.0, 32, 4), (37, 1.0, 40, 4)],
)
def test_uplinks_carry_the_servers_there_are(
    servers: int, ratio: float, uplinks: int, spines: int
) -> None:
    size = built(replace(H100, server_count=servers, oversubscription_ratio=ratio)).size
    assert (size.uplinks_per_leaf, size.spines) == (uplinks, spines)
    assert size.oversubscription_ratio == pytest.approx(servers / uplinks)


def test_growth_is_reserved_and_its_cost_shown() -> None:
    now, grown = built(H100), built(replace(H100, grow_to_count=64))
    assert (now.size.leaf_spine_cables, grown.size.leaf_spine_cables) == (256, 512)
    assert grown.size.oversubscription_ratio == 0.5
    assert any("+256 cables" in reason for reason in grown.reasons)
    assert not any("costs" in reason for reason in now.reasons)


@settings(max_examples=25)
@given(
    servers=st.integers(min_value=1, max_value=300),
    ratio=st.sampled_from([1.0, 1.5, 2.0, 3.0]),
    leaf=st.sampled_from(["qfx5240", "sn5600", "qfx5220-32cd"]),
)
def test_built_ratio_never_exceeds_the_requested_one(servers: int, ratio: float, leaf: str) -> None:
    fabric = design(
        replace(H100, server_count=servers, oversubscription_ratio=ratio, leaf=leaf), CATALOG
    )
    if isinstance(fabric, Fabric) and fabric.size.spines:
        assert fabric.size.oversubscription_ratio <= ratio * (1 + 1e-9)


def test_uplinks_of_slow_nics_run_at_the_speed_of_the_ports() -> None:
    front = for_purpose(Demand(server_count=64, nic_bits_per_s=100e9), "frontend")
    native = built(replace(front, leaf="qfx5220-32cd")).size
    slow = built(replace(front, leaf="qfx5220-32cd", uplink_bits_per_s=100e9)).size
    assert (native.uplinks_per_leaf, slow.uplinks_per_leaf) == (6, 22)
    planes = built(replace(H100, leaf="sn5600", server_count=64, planes=2, shape="two-tier"))
    assert planes.demand.link_bits_per_s == 800e9


def test_frontend_has_the_documented_ratio_nics_and_spines() -> None:
    front = for_purpose(H100, "frontend")
    assert (front.oversubscription_ratio, front.rails, front.min_spines) == (3.0, 2, 2)


def test_two_rails_per_leaf_halve_the_leaves() -> None:
    one, two = built(H100), built(replace(H100, rails_per_leaf=2))
    assert (one.size.leaves, two.size.leaves, two.size.spines) == (8, 4, 4)
    rails = {port.peer.node: set[int | None]() for port in two.servers[0].interfaces}
    for port in two.servers[0].interfaces:
        rails[port.peer.node].add(port.rail)
    assert list(rails.values()) == [{0, 1}, {2, 3}, {4, 5}, {6, 7}]
    leaf = next(node for node in two.topology.nodes if node.name == "leaf-s1-r1to2")
    assert (leaf.rail_of("et-0/0/0:0"), leaf.rail_of("et-0/0/0:1")) == (0, 1)


@pytest.mark.parametrize(
    "demand", SHAPES, ids=lambda demand: f"{demand.shape}-{demand.leaf}-{demand.server_count}"
)
def test_one_prefix_per_leaf_holds_its_server_links_and_no_other(demand: Demand) -> None:
    fabric = built(demand)
    prefixes = {leaf.name: leaf.server_prefix for leaf in fabric.of_role("leaf")}
    if fabric.demand.technology == "infiniband":
        assert set(prefixes.values()) == {None}
        return
    networks = {name: ip_network(text or "") for name, text in prefixes.items()}
    assert len(set(networks.values())) == len(networks)
    for leaf in fabric.of_role("leaf"):
        for port in leaf.downlinks:
            address = ip_address((port.address or "").partition("/")[0])
            assert [name for name, net in networks.items() if address in net] == [leaf.name]


def test_storage_nodes_keep_their_ports_when_servers_are_added() -> None:
    nodes = (AttachedHosts(name="vast", count=8), AttachedHosts(name="weka", count=2))
    storage = replace(for_purpose(H100, "storage"), attached=nodes, nic_bits_per_s=200e9)
    small = built(replace(storage, grow_to_count=60))
    large = built(replace(storage, server_count=60))
    assert [device.name for device in small.servers[:9]][-2:] == ["vast-8", "weka-1"]
    assert small.size.gpus == 256
    for name in ("vast-1", "weka-2", "server-01"):
        assert small.device(name).interfaces == large.device(name).interfaces


def test_management_reaches_bmcs_and_switches() -> None:
    backend = built(H100)
    demand = with_switches(for_purpose(backend.demand, "management"), backend)
    fabric = built(demand)
    assert (fabric.demand.leaf, fabric.demand.shape, fabric.size.leaves) == (
        "sn2201",
        "single-leaf",
        1,
    )
    assert len(fabric.servers) == 32 + len(backend.switches)
    large = built(replace(demand, server_count=200))
    assert (large.size.leaves, large.size.spines) == (5, 2)
    uplinks = large.of_role("leaf")[0].uplinks
    assert [port.port for port in uplinks] == ["swp49", "swp50"]
    assert {port.speed_bits_per_s for port in uplinks} == {100e9}
    assert not large.lossless.qos.pfc.priorities
