"""Designs scaled down to one host, and their port names and rates."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.lab.links import lab_of
from gpuyard.lab.scale import scaled

CATALOG = load_catalog()


def fabric_of(**settings: object) -> Fabric:
    designed = design(Demand(nic_bits_per_s=400e9, **settings), CATALOG)  # type: ignore[arg-type]
    assert isinstance(designed, Fabric)
    return designed


@pytest.mark.parametrize("servers", [2, 4, 8, 12])
def test_scaled_fabric_keeps_rails_and_stripes(servers: int) -> None:
    whole = fabric_of(server_count=128, leaf="qfx5240-64od", os="junos")
    small = scaled(whole, servers, CATALOG)
    assert isinstance(small, Fabric)
    assert small.demand.os == "frr"
    assert small.size.rails == whole.size.rails == 8
    assert small.size.stripes == min(whole.size.stripes, servers) == 2
    assert len(small.servers) == servers
    assert all(len(leaf.uplinks) == small.size.spines for leaf in small.of_role("leaf"))
    names = [port.port for device in small.devices for port in device.interfaces]
    assert max(map(len, names)) <= 15  # the limit of Linux


def test_fabric_of_the_right_size_is_unchanged() -> None:
    fabric = fabric_of(
        server_count=4,
        rails=2,
        gpus_per_server=2,
        servers_per_stripe=2,
        spine_count=2,
        links_per_pair=1,
        min_spines=1,
        os="frr",
    )
    assert scaled(fabric, 4, CATALOG) is fabric


def test_unsupported_fabrics_raise_input_error() -> None:
    infiniband = fabric_of(server_count=8, technology="infiniband")
    with pytest.raises(InputError, match="InfiniBand"):
        scaled(infiniband, 4, CATALOG)
    with pytest.raises(InputError, match="servers"):
        scaled(fabric_of(server_count=8), 99, CATALOG)


def test_link_rates_keep_their_ratio() -> None:
    fabric = fabric_of(
        server_count=8,
        rails=4,
        gpus_per_server=4,
        uplink_bits_per_s=800e9,
        os="frr",
        shape="two-tier",
    )
    lab = lab_of(fabric, name="a", rate_bits_per_s=100e6)
    rates = {link.rate_bits_per_s for link in lab.links}
    assert rates == {100e6, 200e6}
    with pytest.raises(InputError, match="rate"):
        lab_of(fabric, rate_bits_per_s=400e9)
    with pytest.raises(InputError, match="name"):
        lab_of(fabric, name="../etc")


def test_crossed_links_swap_their_far_ends() -> None:
    fabric = fabric_of(server_count=8, rails=4, gpus_per_server=4, os="frr", shape="two-tier")
    plain, crossed = lab_of(fabric).links, lab_of(fabric, crossed=((0, 1),)).links
    assert (crossed[0].a, crossed[0].b) == (plain[0].a, plain[1].b)
    assert (crossed[1].a, crossed[1].b) == (plain[1].a, plain[0].b)
    assert crossed[2:] == plain[2:]
