"""Packet memory: what headroom takes, when it fits, how long a cable may be, and ECN before PFC."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import Infeasible
from gpuyard.fabric.demand import CableLengths, Demand
from gpuyard.fabric.lossless.buffers import buffer_plan, longest_cable_m
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.lossless.lossless_design import lossless_for
from gpuyard.fabric.render.switch_os_list import switch_os
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node
from gpuyard.topology.topology import Topology

CATALOG = load_catalog()


def topology(spine_m: float | None = 40.0, uplinks: int = 64, speed: float = 400e9) -> Topology:
    """One leaf with `uplinks` servers below and as many links to one spine."""
    servers = [Node(name=f"server-{i}", role="server") for i in range(uplinks)]
    switches = [Node(name="leaf-1", role="leaf"), Node(name="spine-1", role="spine")]
    down = [
        Link(
            a=End(node=f"server-{i}", port="gpu0"),
            b=End(node="leaf-1", port=f"d{i}"),
            speed_bits_per_s=speed,
            cable_m=5,
        )
        for i in range(uplinks)
    ]
    up = [
        Link(
            a=End(node="leaf-1", port=f"u{i}"),
            b=End(node="spine-1", port=f"d{i}"),
            speed_bits_per_s=speed,
            cable_m=spine_m,
        )
        for i in range(uplinks)
    ]
    return Topology(nodes=(*servers, *switches), links=(*down, *up))


def demand(switch: str, os: str, **more: object) -> Demand:
    return Demand(server_count=64, nic_bits_per_s=400e9, leaf=switch, spine=switch, os=os, **more)  # type: ignore[arg-type]


def test_buffer_plan_of_128_spectrum_4_ports_at_40_m() -> None:
    switch = CATALOG.switch("sn5600")
    plan = buffer_plan(switch, CATALOG.asic("spectrum-4"), [(400e9, 40.0, 128)], None, 9216)
    assert plan.need_bytes == 128 * 303_104
    assert plan.shared_bytes == 158_229_504 - 128 * 303_104
    assert plan.fits
    assert not plan.pooled
    assert plan.pfc_threshold_bytes(1) == (plan.shared_bytes or 0) / 2


def test_juniper_headroom_pool_is_shared() -> None:
    lossless = lossless_for(demand("qfx5240-64od", "junos"), topology(), CATALOG)
    assert isinstance(lossless, Lossless)
    leaf = next(buffers.plan for buffers in lossless.buffers if buffers.role == "leaf")
    assert leaf.need_bytes == 64 * 393_192 + 64 * 446_024
    assert leaf.room_bytes == int(165_867_080 * 0.85 * 0.24)
    assert leaf.pooled
    assert leaf.fits
    assert leaf.sharing_ratio == pytest.approx(1.588, abs=1e-3)
    assert leaf.covered_count == 75
    assert any("covers 75 of 128 ports paused at once" in note for note in lossless.notes)
    headroom = lossless.headroom("leaf", 400e9, 40.0)
    assert headroom
    assert headroom.xoff_bytes == 446_024
    assert lossless.headroom("leaf", 400e9, 41.0) is None


def test_cable_beyond_the_pool_is_infeasible_with_the_limit() -> None:
    refused = lossless_for(
        demand("qfx5240-64od", "junos"), topology(spine_m=300.0, uplinks=40, speed=800e9), CATALOG
    )
    assert isinstance(refused, Infeasible)
    assert refused.binding == "cable"
    limit = int(re.search(r"at most (\d+) m", refused.fix)[1])
    assert isinstance(
        lossless_for(
            demand("qfx5240-64od", "junos"),
            topology(spine_m=limit, uplinks=40, speed=800e9),
            CATALOG,
        ),
        Lossless,
    )
    assert isinstance(
        lossless_for(
            demand("qfx5240-64od", "junos"),
            topology(spine_m=limit + 1, uplinks=40, speed=800e9),
            CATALOG,
        ),
        Infeasible,
    )


def test_validated_leaf_with_a_small_pool_notes_its_coverage() -> None:
    lossless = lossless_for(demand("qfx5230-64cd", "junos"), topology(uplinks=32), CATALOG)
    assert isinstance(lossless, Lossless)
    assert any("ports paused at once; all would need" in note for note in lossless.notes)


def test_cable_beyond_the_published_table_is_infeasible() -> None:
    refused = lossless_for(demand("z9864f", "sonic"), topology(spine_m=2000.0, uplinks=4), CATALOG)
    assert isinstance(refused, Infeasible)
    assert "ends at 300 m" in refused.what
    assert "at most 300 m" in refused.fix


def test_unknown_cable_length_defaults_to_the_demand() -> None:
    wanted = demand("sn5600", "sonic", cables=CableLengths(spine_m=60.0))
    lossless = lossless_for(wanted, topology(spine_m=None), CATALOG)
    assert isinstance(lossless, Lossless)
    assert lossless.headroom("spine", 400e9, 60.0)


def test_chassis_without_a_published_table_is_noted() -> None:
    lossless = lossless_for(
        Demand(
            server_count=64, nic_bits_per_s=400e9, leaf="qfx5240-64od", spine="ptx10008", os="junos"
        ),
        topology(),
        CATALOG,
    )
    assert isinstance(lossless, Lossless)
    assert any("PTX10008" in note and "no headroom is published" in note for note in lossless.notes)


def test_infiniband_and_frontend_have_no_pfc() -> None:
    front = lossless_for(demand("sn5600", "sonic", purpose="frontend"), topology(), CATALOG)
    assert isinstance(front, Lossless)
    assert (front.transport, front.pfc.priorities, front.buffers) == ("lossy", (), ())
    by_credit = lossless_for(
        Demand(
            server_count=64,
            nic_bits_per_s=400e9,
            leaf="qm9700",
            spine="qm9700",
            technology="infiniband",
        ),
        topology(),
        CATALOG,
    )
    assert isinstance(by_credit, Lossless)
    assert (by_credit.transport, by_credit.pfc.priorities) == ("infiniband", ())


def test_unsupported_balancing_mode_is_infeasible() -> None:
    refused = lossless_for(demand("sn5600", "cumulus", balancing="flowlet"), topology(), CATALOG)
    assert isinstance(refused, Infeasible)
    assert (refused.binding, refused.fix) == ("balancing", "use ecmp or adaptive")


def test_balancing_defaults_to_the_best_mode_of_the_os() -> None:
    modes = {}
    for switch, os in (("sn5600", "cumulus"), ("sn5600", "sonic"), ("sn5600", "frr")):
        lossless = lossless_for(demand(switch, os), topology(), CATALOG)
        assert isinstance(lossless, Lossless)
        modes[os] = lossless.balancing.mode
    assert modes == {"cumulus": "adaptive", "sonic": "flowlet", "frr": "ecmp"}


def test_ecn_marks_before_pfc_with_few_congested_queues() -> None:
    lossless = lossless_for(demand("sn5600", "sonic"), topology(), CATALOG)
    assert isinstance(lossless, Lossless)
    plan, ecn = lossless.buffers[0].plan, lossless.qos.ecn
    count = plan.ecn_first_count(ecn)
    assert count is not None
    assert count > 1
    assert (
        (plan.pfc_threshold_bytes(count) or 0)
        > (ecn.high_bytes or 0)
        >= (plan.pfc_threshold_bytes(count + 1) or 0)
    )


@pytest.mark.parametrize(
    ("switch", "os"),
    [("sn5600", "sonic"), ("qfx5240-64od", "junos"), ("sn4700", "cumulus"), ("sn5600", "frr")],
)
def test_lossless_class_round_trips(switch: str, os: str) -> None:
    lossless = lossless_for(demand(switch, os), topology(uplinks=16), CATALOG)
    assert isinstance(lossless, Lossless)
    assert load_json(dump_json(lossless), Lossless) == lossless


@given(ports=st.integers(1, 128), cable=st.integers(1, 3000))
def test_longest_cable_works_and_a_longer_one_does_not(ports: int, cable: int) -> None:
    switch, asic, qos = (
        CATALOG.switch("sn5600"),
        CATALOG.asic("spectrum-4"),
        switch_os("sonic").qos("sn5600"),
    )

    def works(metres: int) -> bool:
        return buffer_plan(switch, asic, [(400e9, metres, ports)], None, 9216).works(qos.ecn)

    longest = longest_cable_m(switch, asic, [(400e9, cable, ports)], qos, 9216)
    assert works(longest)
    assert longest == cable or not works(longest + 1)


def test_buffer_in_which_pfc_precedes_ecn_is_infeasible() -> None:
    switch, asic, ecn = (
        CATALOG.switch("sn5600"),
        CATALOG.asic("spectrum-4"),
        switch_os("sonic").qos("sn5600").ecn,
    )
    plans = [
        buffer_plan(switch, asic, [(400e9, metres, 128)], None, 9216) for metres in range(600, 700)
    ]
    tight = [plan for plan in plans if plan.fits and not plan.works(ecn)]
    assert tight
    assert all((plan.pfc_threshold_bytes(1) or 0) <= (ecn.high_bytes or 0) for plan in tight)


def test_unpublished_buffer_size_is_noted() -> None:
    lossless = lossless_for(demand("sn5640", "sonic"), topology(), CATALOG)
    assert isinstance(lossless, Lossless)
    assert any("buffer size is not published" in note for note in lossless.notes)


def test_speed_that_the_headroom_table_lacks_is_infeasible() -> None:
    refused = lossless_for(
        demand("qfx5220-32cd", "junos"), topology(uplinks=16, speed=200e9), CATALOG
    )
    assert isinstance(refused, Infeasible)
    assert refused.binding == "headroom"
    assert "100Gbps or 400Gbps" in refused.fix


def test_qos_profiles_differ_by_os() -> None:
    assert switch_os("junos").qos("qfx5240-64od").roce.queue == 4
    assert switch_os("sonic").qos("sn5600").roce.queue == 3
