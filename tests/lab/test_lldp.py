"""Frames that tell who is at the other end."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.lab.lldp import frame, told
from gpuyard.topology import End

NAMES = st.text(string.ascii_letters + string.digits + "-_./", min_size=1, max_size=60)


@given(NAMES, NAMES)
def test_what_is_sent_is_what_is_told(device: str, port: str) -> None:
    assert told(frame(b"\x02" * 6, device, port)) == End(node=device, port=port)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_harm(data: bytes) -> None:
    told(data)


def test_a_torn_frame_tells_nothing() -> None:
    whole = frame(b"\x02" * 6, "leaf-1", "eth1")
    assert told(whole[:24]) is None
