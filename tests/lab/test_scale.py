"""Designs at the size of one host, and the names and rates that they get there."""

from __future__ import annotations

import pytest

from gpuyard.catalog import load_catalog
from gpuyard.errors import InputError
from gpuyard.fabric import Demand, Fabric, design
from gpuyard.lab import lab_of, scaled

CATALOG = load_catalog()


def fabric_of(**settings: object) -> Fabric:
    made = design(Demand(nic_bits_per_s=400e9, **settings), CATALOG)  # type: ignore[arg-type]
    assert isinstance(made, Fabric)
    return made


@pytest.mark.parametrize("servers", [2, 4, 8, 12])
def test_rails_and_stripes_are_kept(servers: int) -> None:
    whole = fabric_of(server_count=128, leaf="qfx5240-64od", os="junos")
    small = scaled(whole, servers, CATALOG)
    assert isinstance(small, Fabric)
    assert small.demand.os == "frr"
    assert small.size.rails == whole.size.rails == 8
    assert small.size.stripes == min(whole.size.stripes, servers) == 2
    assert len(small.servers) == servers
    assert all(len(leaf.uplinks) == small.size.spines for leaf in small.of_role("leaf"))
    names = [port.port for device in small.devices for port in device.interfaces]
    assert max(map(len, names)) <= 15  # the longest that Linux takes


def test_a_fabric_of_the_right_size_stays_as_it_is() -> None:
    fabric = fabric_of(server_count=4, rails=2, gpus_per_server=2, servers_per_stripe=2, spine_count=2,
                       links_per_pair=1, min_spines=1, os="frr")  # fmt: skip
    assert scaled(fabric, 4, CATALOG) is fabric


def test_what_cannot_be_booted_is_refused() -> None:
    infiniband = fabric_of(server_count=8, technology="infiniband")
    with pytest.raises(InputError, match="InfiniBand"):
        scaled(infiniband, 4, CATALOG)
    with pytest.raises(InputError, match="servers"):
        scaled(fabric_of(server_count=8), 99, CATALOG)


def test_links_keep_their_ratio() -> None:
    fabric = fabric_of(server_count=8, rails=4, gpus_per_server=4, uplink_bits_per_s=800e9, os="frr")
    lab = lab_of(fabric, name="a", rate_bits_per_s=100e6)
    rates = {wire.rate_bits_per_s for wire in lab.wires}
    assert rates == {100e6, 200e6}
    with pytest.raises(InputError, match="rate"):
        lab_of(fabric, rate_bits_per_s=400e9)
    with pytest.raises(InputError, match="name"):
        lab_of(fabric, name="../etc")


def test_crossed_cables_exchange_their_far_ends() -> None:
    fabric = fabric_of(server_count=8, rails=4, gpus_per_server=4, os="frr")
    plain, crossed = lab_of(fabric).wires, lab_of(fabric, crossed=((0, 1),)).wires
    assert (crossed[0].a, crossed[0].b) == (plain[0].a, plain[1].b)
    assert (crossed[1].a, crossed[1].b) == (plain[1].a, plain[0].b)
    assert crossed[2:] == plain[2:]
