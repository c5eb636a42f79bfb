"""The published QoS profiles, watchdogs, NIC defaults and limits of balancing, as their sources print them."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.lossless.balancing import balancing_mode, unmet_limits
from gpuyard.fabric.lossless.nic import DCQCN_DEFAULT, nic_for
from gpuyard.fabric.lossless.qos import QosProfile
from gpuyard.fabric.lossless.watchdog import SONIC_RANGES, WatchdogConfig, watchdog_problems
from gpuyard.fabric.render.cumulus.cumulus_profile import CUMULUS_ROCE
from gpuyard.fabric.render.junos.junos_profile import APSTRA_2024, JVD_QFX5240
from gpuyard.fabric.render.sonic.sonic_profile import SONIC_DEFAULT, SONIC_ROCE
from gpuyard.fabric.render.switch_os import SwitchOS
from gpuyard.fabric.render.switch_os_list import SWITCH_OSES, switch_os

PROFILES = (JVD_QFX5240, APSTRA_2024, CUMULUS_ROCE, SONIC_DEFAULT, SONIC_ROCE)


def test_juniper_2025_profile_matches_its_source() -> None:
    qos = JVD_QFX5240
    roce, cnp = qos.class_of(26), qos.class_of(48)
    assert (roce.label, roce.priority, roce.queue, roce.lossless) == ("NO-LOSS", 3, 4, True)
    assert (cnp.label, cnp.queue, cnp.schedule, cnp.share_ratio) == ("CNP", 3, "strict", 0.05)
    assert (qos.ecn.low_fill_ratio, qos.ecn.high_fill_ratio) == (0.55, 0.90)
    memory = qos.partition
    assert memory
    assert (
        memory.ingress_lossless_ratio,
        memory.ingress_headroom_ratio,
        memory.ingress_lossy_ratio,
    ) == (
        0.66,
        0.24,
        0.1,
    )
    assert (memory.egress_lossless_ratio, memory.egress_lossy_ratio) == (0.66, 0.10)
    assert (
        memory.dedicated_ingress_ratio,
        memory.dedicated_egress_ratio,
        memory.dynamic_threshold,
    ) == (0.15, 0.30, 10)


def test_apstra_2024_profile_matches_its_source() -> None:
    qos = APSTRA_2024
    assert (qos.roce.dscp, qos.roce.queue, qos.pfc.priorities) == (tuple(range(8)), 4, (0,))
    assert qos.pfc.scope == "server-facing"
    assert (qos.ecn.low_fill_ratio, qos.ecn.high_fill_ratio) == (0.20, 0.60)
    memory = qos.partition
    assert memory
    assert (
        memory.ingress_lossless_ratio,
        memory.ingress_headroom_ratio,
        memory.ingress_lossy_ratio,
    ) == (0.8, 0.1, 0.1)
    assert (memory.egress_lossless_ratio, memory.egress_lossy_ratio) == (0.80, 0.20)


def test_sonic_default_profile_matches_its_source() -> None:
    qos = SONIC_DEFAULT
    marks = {dscp: qos.class_of(dscp).traffic_class for dscp in (26, 3, 4, 46, 48, 8)}
    assert marks == {26: 1, 3: 3, 4: 4, 46: 5, 48: 6, 8: 0}
    assert not qos.class_of(26).lossless
    assert qos.pfc.priorities == (3, 4)
    assert (qos.ecn.low_bytes, qos.ecn.high_bytes, qos.ecn.mark_ratio) == (
        1_048_576,
        2_097_152,
        0.05,
    )


def test_cumulus_roce_profile_matches_its_source() -> None:
    qos = CUMULUS_ROCE
    for dscp in range(24, 32):
        result = qos.class_of(dscp)
        assert (result.traffic_class, result.priority, result.schedule, result.share_ratio) == (
            3,
            3,
            "weighted",
            0.5,
        )
    for dscp in range(48, 56):
        assert (qos.class_of(dscp).traffic_class, qos.class_of(dscp).schedule) == (6, "strict")
    assert (qos.ecn.low_bytes, qos.ecn.high_bytes, qos.ecn.mark_ratio) == (150_000, 1_500_000, 1.0)
    assert "159,744" in qos.note


@pytest.mark.parametrize("os", SWITCH_OSES, ids=lambda os: os.name)
def test_nic_settings_agree_with_the_qos_profile(os: SwitchOS) -> None:
    qos = os.qos("")
    nic = nic_for(qos)
    assert nic.trust == "dscp"  # the factory default of ConnectX, PCP, ignores DSCP
    assert qos.class_of(nic.roce_dscp).lossless
    assert qos.class_of(nic.roce_dscp).priority == nic.roce_priority == 3
    assert nic.pfc_priorities == qos.pfc.priorities == (3,)
    cnp = qos.class_of(nic.cnp_dscp)
    assert cnp.schedule == "strict"
    assert cnp.queue != qos.roce.queue
    assert not cnp.lossless
    assert nic.traffic_class_byte == 106


@pytest.mark.parametrize("qos", PROFILES, ids=lambda qos: qos.name)
def test_profiles_are_consistent(qos: QosProfile) -> None:
    claimed = [dscp for one in qos.classes for dscp in one.dscp]
    assert len(claimed) == len(set(claimed))
    assert {one.priority for one in qos.classes if one.lossless} == set(qos.pfc.priorities)
    assert "http" in qos.source


def test_older_qfx_have_equal_lossless_shares() -> None:
    for name in ("qfx5220-32cd", "qfx5230-64cd"):
        memory = switch_os("junos").qos(load_catalog().switch(name).name).partition
        assert memory
        assert memory.ingress_lossless_ratio == memory.egress_lossless_ratio == 0.80
    memory = switch_os("junos").qos("qfx5240-64od").partition
    assert memory
    assert memory.ingress_headroom_ratio == 0.24


def test_watchdogs_match_their_sources() -> None:
    junos, cumulus = switch_os("junos").watchdog, switch_os("cumulus").watchdog
    assert (junos.poll_s, junos.detect_s, junos.restore_s) == (0.1, 0.2, 0.2)
    assert (cumulus.poll_s, round(cumulus.detect_s / cumulus.poll_s)) == (0.1, 3)
    assert SONIC_RANGES == {"poll": (0.1, 1.0), "detect": (0.1, 5.0), "restore": (0.1, 60.0)}
    for os in SWITCH_OSES:
        assert list(watchdog_problems(os.watchdog)) == []


@pytest.mark.parametrize(
    ("poll", "detect", "restore", "said"),
    [
        (
            0.4,
            0.1,
            0.4,
            "detect time 100 ms is below the poll interval 400 ms",
        ),  # an example printed in SONiC's own design
        (0.4, 0.4, 0.2, "restore time 200 ms is below"),
        (0.05, 0.2, 0.2, "poll time is 50 ms"),
        (0.1, 6.0, 6.0, "detect time is 6000 ms"),
    ],
)
def test_invalid_watchdog_times_are_reported(
    poll: float, detect: float, restore: float, said: str
) -> None:
    watchdog = WatchdogConfig(
        poll_s=poll, detect_s=detect, restore_s=restore, action="drop", source=""
    )
    assert any(said in problem.what for problem in watchdog_problems(watchdog))


def test_dcqcn_defaults_match_nvidia() -> None:
    result = DCQCN_DEFAULT
    assert (result.clamp_tgt_rate, result.clamp_tgt_rate_after_time_inc) == (False, True)
    assert (result.dce_tcp_g, result.initial_alpha, result.rpg_gd, result.rpg_min_dec_fac) == (
        1019,
        1023,
        11,
        50,
    )
    assert (
        result.dce_tcp_rtt_s,
        result.min_time_between_cnps_s,
        result.rate_reduce_monitor_period_s,
    ) == (
        1e-6,
        4e-6,
        4e-6,
    )
    assert (
        result.rpg_ai_rate_bits_per_s,
        result.rpg_hai_rate_bits_per_s,
        result.rpg_min_rate_bits_per_s,
    ) == (
        5e6,
        50e6,
        1e6,
    )
    assert (result.rpg_byte_reset_bytes, result.rpg_threshold, result.rpg_time_reset_s) == (
        32767,
        1,
        300e-6,
    )
    assert (result.rpg_max_rate_bits_per_s, result.rate_to_set_on_first_cnp_bits_per_s) == (0, 0)


def test_pause_quanta_match_the_standard() -> None:
    constants = load_catalog().asic("spectrum-4").headroom
    assert constants
    assert {round(row.speed_bits_per_s / 1e6): row.quanta for row in constants.pause} == {
        10000: 67,
        25000: 80,
        40000: 118,
        50000: 147,
        100000: 394,
        200000: 453,
        400000: 905,
        800000: 905,
    }


def test_global_load_balancing_limits() -> None:
    glb = balancing_mode("global")
    assert (
        glb.clos_stages,
        glb.links_per_pair,
        glb.max_leaves,
        glb.overlay,
        glb.same_everywhere,
    ) == (
        3,
        1,
        64,
        False,
        True,
    )

    def broken(
        leaves: int = 64, tiers: int = 2, links: int = 1, overlay: bool = False
    ) -> list[str]:
        return list(
            unmet_limits(
                glb,
                leaves=leaves,
                tiers=tiers,
                links_per_pair=links,
                overlay=overlay,
                fastest_bits_per_s=800e9,
            )
        )

    assert broken() == []
    assert "at most 64 leaves; this fabric has 65" in broken(leaves=65)[0]
    assert "3 stages; this one has 5" in broken(tiers=3)[0]
    assert (
        "1 link between two switches; this fabric has 2" in broken(links=2)[0]
    )  # as in Juniper's own EVPN design
    assert "overlay" in broken(overlay=True)[0]


def test_adaptive_routing_limits() -> None:
    adaptive = balancing_mode("adaptive")

    def broken(speed: float) -> list[str]:
        return list(
            unmet_limits(
                adaptive,
                leaves=8,
                tiers=2,
                links_per_pair=2,
                overlay=False,
                fastest_bits_per_s=speed,
            )
        )

    assert broken(400e9) == []
    assert "above 400 Gb/s" in broken(800e9)[0]
    assert switch_os("cumulus").balancing_for("adaptive") is not None
    assert switch_os("sonic").balancing_for("adaptive") is None
