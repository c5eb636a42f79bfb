"""LLDP frames of the lab."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.lab.lldp import frame, parse_frame
from gpuyard.topology.links import End

NAMES = st.text(string.ascii_letters + string.digits + "-_./", min_size=1, max_size=60)


@given(NAMES, NAMES)
def test_frame_round_trips(device: str, port: str) -> None:
    assert parse_frame(frame(b"\x02" * 6, device, port)) == End(node=device, port=port)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_do_not_raise(data: bytes) -> None:
    parse_frame(data)


def test_truncated_frame_is_ignored() -> None:
    whole = frame(b"\x02" * 6, "leaf-1", "eth1")
    assert parse_frame(whole[:24]) is None
