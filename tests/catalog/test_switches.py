"""Switch rows: ports that fit the ASIC, and constants that reproduce published headroom."""

from __future__ import annotations

import math

import pytest

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.catalog.switches import Asic, Headroom

CATALOG = load_catalog()
GBPS = 1e9
LIGHT_IN_FIBRE_M_PER_S = 198e6

# xoff in bytes by cable (m) and speed (Gb/s), as published in sonic-buildimage pg_profile_lookup.ini
SN5600 = {  # port MTU 9216, lossless MTU 1024, small packets only
    5: {
        10: 45056,
        25: 48128,
        40: 57344,
        50: 63488,
        100: 113664,
        200: 131072,
        400: 231424,
        800: 257024,
    },
    40: {
        10: 46080,
        25: 52224,
        40: 62464,
        50: 69632,
        100: 126976,
        200: 157696,
        400: 283648,
        800: 362496,
    },
    300: {
        10: 56320,
        25: 76800,
        40: 101376,
        50: 118784,
        100: 225280,
        200: 355328,
        400: 677888,
        800: 1150976,
    },
}
SN4700 = {  # port MTU 9216
    5: {10: 32768, 25: 32768, 40: 33792, 50: 33792, 100: 33792, 200: 35840, 400: 38912},
    40: {10: 33792, 25: 35840, 40: 37888, 50: 38912, 100: 44032, 200: 55296, 400: 77824},
    300: {10: 40960, 25: 54272, 40: 66560, 50: 75776, 100: 117760, 200: 203776, 400: 373760},
}
SN3700 = {
    cable: {speed: xoff for speed, xoff in row.items() if speed < 400}
    for cable, row in SN4700.items()
}
SN2700 = {  # port MTU 9100
    5: {10: 29696, 25: 29696, 40: 29696, 50: 29696, 100: 30720},
    40: {10: 29696, 25: 31744, 40: 32768, 50: 33792, 100: 38912},
    300: {10: 36864, 25: 48128, 40: 59392, 50: 66560, 100: 104448},
}
TABLES = {
    "sn5600": (SN5600, 9216),
    "sn4700": (SN4700, 9216),
    "sn3700": (SN3700, 9216),
    "sn2700": (SN2700, 9100),
}
Z9864F = {  # xoff of the Tomahawk 5 table
    5: {
        10: 91440,
        25: 91440,
        40: 106934,
        50: 106934,
        100: 147066,
        200: 229362,
        400: 393192,
        800: 729488,
    },
    40: {
        10: 94742,
        25: 94742,
        40: 113538,
        50: 113538,
        100: 160274,
        200: 255778,
        400: 446024,
        800: 835406,
    },
    300: {
        10: 258572,
        25: 258572,
        40: 258572,
        50: 258572,
        100: 258572,
        200: 452374,
        400: 839216,
        800: 1621536,
    },
}


def cells_per_packet(asic: Asic, constants: Headroom) -> float:
    """How much more memory a packet of 64 bytes takes than its size, at worst."""
    assert asic.cell_bytes
    factor = (
        asic.cell_bytes / 64
        if asic.cell_bytes > 128
        else 2 * asic.cell_bytes / (1 + asic.cell_bytes)
    )
    return math.ceil(factor) if constants.worst_case_factor == "ceil" else factor


def xoff(
    asic: Asic, speed_bits_per_s: float, cable_m: float, port_mtu: int, lossless_mtu: int = 1024
) -> int:
    """The open formula (SONiC, dynamic headroom calculation), for small packets only."""
    constants = asic.headroom
    assert constants
    quanta = {pause.speed_bits_per_s: pause.quanta for pause in constants.pause}.get(
        speed_bits_per_s
    )
    peer = quanta * 64 if quanta else constants.peer_bytes
    assert peer
    delay = (
        port_mtu  # the packet on its way when the pause is sent
        + 2
        * cable_m
        / LIGHT_IN_FIBRE_M_PER_S
        * speed_bits_per_s
        / 8  # on the cable, there and back
        + constants.mac_phy_bytes  # in MAC and PHY
        + peer  # before the peer stops
        + constants.tile_s * speed_bits_per_s / 8  # crossing the chip
    )
    needed = lossless_mtu + delay * cells_per_packet(asic, constants)
    return math.ceil(needed / 1024) * 1024 + round(constants.extra_bytes)


@pytest.mark.parametrize(
    ("switch", "cable_m", "speed", "expected"),
    [
        (switch, cable_m, speed, expected)
        for switch, (table, _) in TABLES.items()
        for cable_m, row in table.items()
        for speed, expected in row.items()
    ],
)
def test_constants_reproduce_published_headroom(
    switch: str, cable_m: int, speed: int, expected: int
) -> None:
    asic = CATALOG.asic(CATALOG.switch(switch).asic or "")
    assert xoff(asic, speed * GBPS, cable_m, port_mtu=TABLES[switch][1]) == expected


def test_xon_offsets_match_published_tables() -> None:
    constants = {
        name: CATALOG.asic(name).headroom for name in ("spectrum-3", "spectrum-4", "spectrum-6")
    }
    xon = {
        name: (h.pipeline_bytes, h.eight_lane_pipeline_bytes) for name, h in constants.items() if h
    }
    assert xon == {
        "spectrum-3": (19456, 37888),
        "spectrum-4": (19456, 38912),
        "spectrum-6": (43008, None),
    }


def test_spectrum_cells_grow_by_generation() -> None:
    cells = [CATALOG.asic(f"spectrum-{generation}").cell_bytes for generation in range(1, 7)]
    assert cells == [96, 144, 144, 192, 192, 256]


def test_tomahawk_5_headroom_table_is_complete() -> None:
    rows = {
        (row.cable_m, row.speed_bits_per_s): row.xoff_bytes
        for row in CATALOG.asic("tomahawk-5").headroom_lookup
    }
    expected = {
        (cable, speed * GBPS): value
        for cable, row in Z9864F.items()
        for speed, value in row.items()
    }
    assert rows == expected


def test_switch_headroom_table_overrides_asic() -> None:
    rows = CATALOG.switch("7060x6").headroom_lookup
    assert {row.cable_m for row in rows} == {5, 40, 150}
    assert {row.xoff_bytes for row in rows} == {612_140}


@pytest.mark.parametrize(
    "asic", [asic for asic in CATALOG.asics if asic.vendor == "Broadcom"], ids=lambda a: a.name
)
def test_broadcom_sizes_are_multiples_of_cells(asic: Asic) -> None:
    assert asic.cell_bytes == 254
    assert asic.buffer_bytes
    assert asic.buffer_bytes % asic.cell_bytes == 0
    for row in asic.headroom_lookup:
        assert row.xoff_bytes % asic.cell_bytes == 0


@pytest.mark.parametrize("asic", CATALOG.asics, ids=lambda asic: asic.name)
def test_headroom_grows_with_cable_and_speed(asic: Asic) -> None:
    rows = sorted(asic.headroom_lookup, key=lambda row: (row.speed_bits_per_s, row.cable_m))
    for first in rows:
        for second in rows:
            if (
                first.cable_m <= second.cable_m
                and first.speed_bits_per_s <= second.speed_bits_per_s
            ):
                assert first.xoff_bytes <= second.xoff_bytes
    assert asic.headroom or asic.headroom_lookup or "no headroom" in asic.note


def test_port_bandwidth_does_not_exceed_asic() -> None:
    for switch in CATALOG.switches:
        if switch.asic:
            capacity = CATALOG.asic(switch.asic).capacity_bits_per_s
            assert capacity
            assert switch.port_count * switch.port_bits_per_s <= capacity * 1.0001, switch.name


def test_breakouts_use_supported_speeds() -> None:
    for switch in CATALOG.switches:
        for links in switch.breakouts:
            speed = switch.port_bits_per_s / links
            assert not switch.speeds_bits_per_s or speed in switch.speeds_bits_per_s, (
                f"{switch.name}: {links}"
            )


@pytest.mark.parametrize(
    ("switch", "links", "count"),
    [
        ("qfx5220-32cd", 400, 32),  # 400G ports of each leaf in the validated design, table 5
        ("qfx5230-64cd", 400, 64),
        ("qfx5240-64od", 400, 128),
        ("qfx5240-64cd", 400, 128),
        ("ptx10008", 400, 288),
        ("ptx10016", 400, 576),
        ("qm9700", 400, 64),  # radix of the SuperPOD tables
        ("q3400", 800, 144),
        ("sn5600", 400, 128),
        ("msn4700", 400, 32),
    ],
)
def test_switch_radix_at_link_speed(switch: str, links: int, count: int) -> None:
    row = CATALOG.switch(switch)
    split = round(row.port_bits_per_s / (links * GBPS))
    assert split in row.breakouts
    assert row.port_count * split == count


def test_infiniband_switches_have_no_ethernet_os() -> None:
    for switch in CATALOG.switches:
        assert (switch.technology == "infiniband") == (not switch.os), switch.name


def test_headroom_pool_fits_buffer() -> None:
    pooled = [switch for switch in CATALOG.switches if switch.headroom_pool_bytes]
    assert len(pooled) >= 4
    for switch in pooled:
        assert (switch.headroom_pool_bytes or 0) < (
            CATALOG.asic(switch.asic or "").buffer_bytes or 0
        )


def test_catalog_is_hashable_value() -> None:
    assert isinstance(CATALOG, Catalog)
    assert load_catalog() == CATALOG
