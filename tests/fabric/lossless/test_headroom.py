"""Headroom against every row of the tables that SONiC ships, and the laws that it must keep."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.fabric.lossless.headroom import headroom, headroom_of

CATALOG = load_catalog()
TABLE = Path(__file__).parent / "headroom.csv"
GBPS = 1e9
# The shipped row reserves 75,776 bytes for an xon of 19,456 and an xoff of 57,344, which need 76,800.
ERRATA = {("sn5600", 40, 5): 76_800}
SPECTRUM = ("spectrum-1", "spectrum-2", "spectrum-3", "spectrum-4", "spectrum-5", "spectrum-6")


def shipped() -> Iterator[tuple[str, int, int, int, int, int, int]]:
    lines = [
        line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    for row in csv.reader(lines[1:]):
        yield (row[0], *(int(value) for value in row[1:]))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("switch", "speed", "cable_m", "mtu", "size", "xon", "xoff"), list(shipped())
)
def test_headroom_matches_every_shipped_row(
    switch: str, speed: int, cable_m: int, mtu: int, size: int, xon: int, xoff: int
) -> None:
    row = CATALOG.switch(switch)
    result = headroom_of(row, CATALOG.asic(row.asic or ""), speed * GBPS, cable_m, mtu)
    assert (result.xoff_bytes, result.xon_bytes) == (xoff, xon)
    assert result.size_bytes == ERRATA.get((switch, speed, cable_m), size)


def test_shipped_tables_are_complete() -> None:
    counts = Counter(row[0] for row in shipped())
    assert counts == {
        "sn5600": 24,
        "sn4700": 21,
        "sn3700": 18,
        "sn2700": 15,
        "z9864f": 24,
        "z9664f": 21,
        "z9332f": 10,
    }


def published() -> Iterator[dict[str, str]]:
    folder = os.environ.get("GPUYARD_PUBLISHED", "")
    path = Path(folder) / "fabric_vectors.csv"
    if not folder or not path.is_file():
        reason = "GPUYARD_PUBLISHED names no folder with fabric_vectors.csv"
        if os.environ.get("GPUYARD_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with path.open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def test_headroom_matches_published_vectors() -> None:
    asics = {
        "sn5600": "spectrum-4",
        "msn4700": "spectrum-3",
        "msn2700": "spectrum-1",
        "z9864f": "tomahawk-5",
    }
    tried = 0
    for row in published():
        if not row["design"].startswith("headroom_"):
            continue
        name, given_, expected = (
            row["design"].split("_")[1],
            json.loads(row["input"]),
            json.loads(row["expected"]),
        )
        speed, cable_m = given_["speed_mbps"] * 1e6, given_["cable_m"]
        result = headroom(
            CATALOG.asic(asics[name]),
            speed,
            cable_m,
            given_.get("port_mtu", 9216),
            given_.get("small_packet_pct", 100) / 100,
        )
        size = ERRATA.get((name, given_["speed_mbps"] // 1000, cable_m), expected["size"])
        assert (result.xoff_bytes, result.xon_bytes, result.size_bytes) == (
            expected["xoff"],
            expected["xon"],
            size,
        ), row
        tried += 1
    assert tried


def test_shared_pool_reserves_only_the_pipeline_per_port() -> None:
    asic = CATALOG.asic("spectrum-4")
    alone, shared = (headroom(asic, 400e9, 40, shared_pool=pool) for pool in (False, True))
    assert shared.xoff_bytes == alone.xoff_bytes == 283_648
    assert shared.size_bytes == shared.xon_bytes == 19_456


def test_eight_lanes_double_the_pipeline_bytes() -> None:
    asic = CATALOG.asic("spectrum-4")
    four, eight = headroom(asic, 400e9, 40), headroom(asic, 400e9, 40, lanes=8)
    assert eight.xon_bytes == 2 * four.xon_bytes
    assert eight.size_bytes > four.size_bytes + four.xon_bytes


def test_fewer_small_packets_need_less_plus_compensation() -> None:
    asic = CATALOG.asic("spectrum-4")
    # SONiC's default of 50 %: 64 of 544 bytes a packet are small at most, so 1 + 2 x 0.1176 bytes of memory a byte.
    # delay = 9216 + 20202.02 + 819.2 + 57920 + 6000 = 94157.22; 1024 + 94157.22 x 1.235294 -> 117336 -> 117760 + 2048
    assert headroom(asic, 400e9, 40, small_packet_ratio=0.5).xoff_bytes == 117_760 + 2048
    assert headroom(asic, 400e9, 40, small_packet_ratio=0.5, shared_pool=True).xoff_bytes == 117_760


def test_headroom_is_interpolated_between_published_lengths() -> None:
    asic = CATALOG.asic("tomahawk-5")
    near, middle, far = (headroom(asic, 400e9, cable_m) for cable_m in (40, 170, 300))
    assert (near.method, middle.method, far.method) == ("table", "interpolated", "table")
    assert (
        middle.xoff_bytes == 642_620
    )  # halfway between 446,024 and 839,216; 2,530 whole cells of 254
    assert headroom(asic, 400e9, 2).xoff_bytes == 393_192  # shorter than the shortest: the shortest


def test_switch_table_overrides_its_asic() -> None:
    arista = CATALOG.switch("7060x6")
    assert headroom_of(arista, CATALOG.asic("tomahawk-5"), 400e9, 100).xoff_bytes == 612_140


@pytest.mark.parametrize(
    ("asic", "speed", "cable_m", "mtu", "small", "said"),
    [
        ("tomahawk-5", 400e9, 301, 9216, 1.0, "ends at 300 m"),
        ("tomahawk-3", 40e9, 5, 9216, 1.0, "use 100Gbps or 400Gbps"),
        ("spectrum-4", 0, 5, 9216, 1.0, "not a port speed"),
        ("spectrum-4", 99e12, 5, 9216, 1.0, "not a port speed"),
        ("spectrum-4", 400e9, -1, 9216, 1.0, "a cable of -1 m"),
        ("spectrum-4", 400e9, float("nan"), 9216, 1.0, "a cable of nan m"),
        ("spectrum-4", 400e9, 5, 10, 1.0, "MTU of 10"),
        ("spectrum-4", 400e9, 5, 9216, 1.5, "150 %"),
    ],
)
def test_wrong_arguments_raise_input_error(
    asic: str, speed: float, cable_m: float, mtu: int, small: float, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        headroom(CATALOG.asic(asic), speed, cable_m, mtu, small)


@given(
    asic=st.sampled_from(SPECTRUM),
    speed=st.sampled_from([10, 25, 40, 50, 100, 200, 400, 800]),
    short=st.floats(0, 2000),
    more=st.floats(0, 2000),
    mtu=st.integers(64, 9216),
    small=st.floats(0, 1),
)
def test_headroom_is_monotonic(
    asic: str, speed: int, short: float, more: float, mtu: int, small: float
) -> None:
    row = CATALOG.asic(asic)
    base = headroom(row, speed * GBPS, short, mtu, small)
    assert headroom(row, speed * GBPS, short + more, mtu, small).xoff_bytes >= base.xoff_bytes
    assert headroom(row, speed * GBPS, short, 9216, small).xoff_bytes >= base.xoff_bytes
    assert headroom(row, speed * GBPS, short, mtu, 1.0).xoff_bytes >= base.xoff_bytes
    assert base.size_bytes >= base.xoff_bytes + base.xon_bytes
    assert base.xoff_bytes % 1024 == 0


@given(cable=st.floats(0, 300), more=st.floats(0, 300), speed=st.sampled_from([100, 200, 400, 800]))
def test_table_headroom_is_monotonic_in_cable_length(cable: float, more: float, speed: int) -> None:
    asic = CATALOG.asic("tomahawk-5")
    longer = min(300.0, cable + more)
    assert (
        headroom(asic, speed * GBPS, longer).xoff_bytes
        >= headroom(asic, speed * GBPS, cable).xoff_bytes
    )
    assert headroom(asic, speed * GBPS, cable).xoff_bytes % 254 == 0
