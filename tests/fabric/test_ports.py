"""Ports: how a switch splits them, and what they are called."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.ports import links_per_port, port_names

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("switch", "gbps", "links"),
    [
        ("qfx5240", 400, 2),
        ("qfx5240", 800, 1),
        ("qfx5240", 100, 0),  # the validated design has no finer split
        ("sn5600", 100, 4),  # eight links would fit, and only four are offered
        ("sn5640", 400, 2),
        ("ptx10016", 400, 1),
        ("ptx10016", 800, 0),
        ("z9664f", 100, 1),  # slower, and not split: no source tells that it can be
    ],
)
def test_links_per_port_at_a_speed(switch: str, gbps: int, links: int) -> None:
    assert links_per_port(CATALOG.switch(switch), gbps * 1e9) == links


def test_port_names_are_unique_for_every_os() -> None:
    for switch in CATALOG.switches:
        for os in (*switch.os, "frr", None):
            for ways in switch.breakouts:
                names = port_names(switch, os, ways)
                assert len(set(names)) == len(names) == switch.port_count * ways, (
                    switch.name,
                    os,
                    ways,
                )


def test_last_chassis_port_is_on_the_last_card() -> None:
    assert port_names(CATALOG.switch("ptx10016"), "junos", 1)[-1] == "et-15/0/35"


def test_sonic_port_names_count_lanes() -> None:
    assert port_names(CATALOG.switch("sn5600"), "sonic", 1)[:2] == ("Ethernet0", "Ethernet8")
    assert port_names(CATALOG.switch("z9664f"), "sonic", 1)[:2] == ("Ethernet0", "Ethernet4")
