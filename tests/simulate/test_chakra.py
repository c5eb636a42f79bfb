"""Chakra execution traces: read from bytes of our own making, replayed over a switch."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.simulate.chakra import ChakraNode, read_chakra
from gpuyard.simulate.flow.flow_engine import simulate_flows
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.network import single_switch
from gpuyard.simulate.replay import replay
from gpuyard.simulate.run_traffic import read_traffic
from gpuyard.simulate.traffic import FlowSet

COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
ALL_REDUCE, REDUCE, ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER, BARRIER = 0, 1, 2, 6, 7, 9
RATE_BITS_PER_S = 400e9


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def text(number: int, value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def attribute(name: str, value: bytes) -> bytes:
    return text(10, text(1, name) + value)


def node(
    number: int,
    kind: int,
    after: Iterable[int] = (),
    *,
    duration_us: int = 0,
    packed: bool = True,
    **more: bytes,
) -> bytes:
    waits = b"".join(map(varint, after))
    deps = text(5, waits) if packed else b"".join(whole(5, each) for each in after)
    body = (
        whole(1, number) + text(2, f"node {number}") + whole(3, kind) + deps + whole(7, duration_us)
    )
    return body + b"".join(attribute(name, value) for name, value in more.items())


def collective(
    number: int,
    kind: int,
    size: int,
    after: Iterable[int] = (),
    group: str = "",
    duration_us: int = 900,
) -> bytes:
    named = {"pg_name": text(29, group)} if group else {}
    return node(
        number,
        COLLECTIVE,
        after,
        duration_us=duration_us,
        comm_type=whole(9, kind),
        comm_size=whole(9, size),
        **named,
    )


def trace(*nodes: bytes) -> bytes:
    return b"".join(varint(len(each)) + each for each in (text(1, "0.0.4"), *nodes))


def replayed(*ranks: bytes) -> FlowSet:
    return replay([read_chakra(each) for each in ranks]).traffic


def time_s(traffic: FlowSet, hosts: int) -> float:
    """Over one switch without delays or headers."""
    network = single_switch(hosts, rate_bits_per_s=RATE_BITS_PER_S, delay_s=0.0)
    return simulate_flows(
        network, traffic, FlowSettings(header_bytes=0, store_and_forward=False)
    ).outcome.duration_s


def ring_s(size: float, ranks: int, times: int = 2) -> float:
    return times * (ranks - 1) / ranks * size / (RATE_BITS_PER_S / 8)


def test_node_fields_are_read() -> None:
    (first, second) = read_chakra(
        trace(
            node(
                7,
                COMPUTE,
                [3, 5],
                duration_us=12,
                packed=False,
                is_cpu_op=whole(27, 1),
                skew=whole(17, 3),
            ),
            node(
                8,
                SEND,
                [7],
                comm_dst=whole(7, 3),
                comm_tag=whole(7, -2),
                comm_size=whole(13, 2**40),
                weight=varint(3 << 3 | 1) + struct.pack("<d", 2.5),
            ),
        )
    )
    assert first == ChakraNode(id=7, name="node 7", kind="compute", after=(3, 5), duration_s=12e-6)
    assert (second.kind, second.peer, second.tag, second.size_bytes) == ("send", 3, -2, 2**40)
    assert second.duration_s == 0.0  # the simulation tells how long it takes


def test_all_reduce_takes_time_of_ring() -> None:
    made = replayed(*[trace(collective(0, ALL_REDUCE, 4_000_000))] * 4)
    assert made.flow_count == 4 * 6
    assert time_s(made, 4) == pytest.approx(ring_s(4e6, 4), rel=1e-6)


@pytest.mark.parametrize(("kind", "size"), [(REDUCE_SCATTER, 4_000_000), (ALL_GATHER, 1_000_000)])
def test_sizes_are_of_the_input(kind: int, size: int) -> None:
    made = replayed(*[trace(collective(0, kind, size))] * 4)
    assert time_s(made, 4) == pytest.approx(ring_s(4e6, 4, times=1), rel=1e-6)


def test_computation_comes_before_and_between() -> None:
    one = trace(
        node(1, COMPUTE, duration_us=100),
        collective(2, ALL_REDUCE, 4_000_000, [1]),
        node(3, COMPUTE, [2], duration_us=50),
        collective(4, ALL_TO_ALL, 4_000_000, [3]),
        node(5, COMPUTE, [4], duration_us=30),
    )
    made = replay([read_chakra(one)] * 4)
    assert time_s(made.traffic, 4) == pytest.approx(
        150e-6 + ring_s(4e6, 4) + ring_s(4e6, 4, times=1), rel=1e-6
    )
    assert made.tail_s == pytest.approx(30e-6)
    assert made.marker_count == 0


def test_last_rank_delays_all_others() -> None:
    ranks = [
        trace(node(1, COMPUTE, duration_us=wait), collective(2, ALL_REDUCE, 4_000_000, [1]))
        for wait in (10, 400, 10, 10)
    ]
    took = time_s(replayed(*ranks), 4)
    assert took >= 400e-6 + ring_s(4e6, 4) * 5 / 6  # its own messages all come later
    assert took <= 400e-6 + ring_s(4e6, 4)


def test_groups_run_concurrently() -> None:
    ranks = [trace(collective(0, ALL_REDUCE, 4_000_000, group=f"{rank // 2}")) for rank in range(4)]
    made = replayed(*ranks)
    assert {(int(a), int(b)) for a, b in zip(made.source, made.target, strict=True)} == {
        (0, 1),
        (1, 0),
        (2, 3),
        (3, 2),
    }
    assert time_s(made, 4) == pytest.approx(ring_s(4e6, 2), rel=1e-6)


def test_receive_starts_dependent_nodes() -> None:
    sender = trace(
        node(0, SEND, comm_dst=whole(7, 1), comm_tag=whole(7, 5), comm_size=whole(9, 1_000_000))
    )
    receiver = trace(
        node(0, RECEIVE, comm_src=whole(7, 0), comm_tag=whole(7, 5), comm_size=whole(9, 1_000_000)),
        node(
            1, SEND, [0], comm_dst=whole(7, 2), comm_tag=whole(7, 0), comm_size=whole(9, 1_000_000)
        ),
    )
    last = trace(node(0, RECEIVE, comm_src=whole(7, 1), comm_tag=whole(7, 0)))
    assert time_s(replayed(sender, receiver, last), 3) == pytest.approx(2 * 1e6 / 50e9, rel=1e-6)


def test_computation_that_overlaps_messages_is_recorded() -> None:
    one = trace(
        collective(1, ALL_REDUCE, 4_000_000),
        node(2, COMPUTE, duration_us=2000),  # far longer than the sum beside it
        collective(3, ALL_REDUCE, 4_000_000, [1, 2]),
    )
    made = replay([read_chakra(one)] * 4)
    assert made.marker_count == 4
    assert time_s(made.traffic, 4) == pytest.approx(2000e-6 + ring_s(4e6, 4), rel=1e-4)


def test_barrier_sends_almost_nothing() -> None:
    made = replayed(*[trace(collective(0, BARRIER, 0))] * 4)
    assert np.all(made.size_bytes == 1)


@pytest.mark.parametrize(
    ("ranks", "what"),
    [
        ((b"\x05abc",), "not a Chakra execution trace"),
        ((trace(),), "no nodes"),
        ((trace(node(1, COMPUTE)),), "nothing is sent"),
        ((trace(collective(0, ALL_REDUCE, 8)),), "only rank 0"),
        (
            (trace(collective(0, ALL_REDUCE, 8)), trace(collective(0, ALL_REDUCE, 16))),
            "ranks differ in it",
        ),
        ((trace(collective(0, REDUCE, 8)),) * 2, "collective type 1"),
        (
            (
                trace(collective(0, ALL_REDUCE, 8), collective(1, ALL_REDUCE, 8)),
                trace(collective(0, ALL_REDUCE, 8)),
            ),
            "different numbers",
        ),
        ((trace(collective(0, ALL_REDUCE, 8, [9])),) * 2, "waits for node 9"),
        (
            (trace(collective(0, ALL_REDUCE, 8, [1]), collective(1, ALL_REDUCE, 8, [0])),) * 2,
            "dependency cycle",
        ),
        (
            (trace(node(0, SEND, comm_dst=whole(7, 1))), trace(node(0, COMPUTE))),
            "1 sends and 0 receives",
        ),
        ((trace(node(0, SEND, comm_dst=whole(7, 7))),), "no such pair"),
        (
            (
                trace(
                    node(
                        0,
                        COLLECTIVE,
                        comm_type=whole(9, 0),
                        comm_size=whole(9, 8),
                        involved_dim=text(28, text(1, bytes([1, 0]))),
                    )
                ),
            )
            * 2,
            "some dimensions",
        ),
    ],
)
def test_invalid_trace_raises_input_error(ranks: tuple[bytes, ...], what: str) -> None:
    with pytest.raises(InputError) as caught:
        replayed(*ranks)
    assert what in str(caught.value)


def test_files_of_all_ranks_are_read_from_one_name(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"step.{rank}.et").write_bytes(trace(collective(0, ALL_REDUCE, 3_000_000)))
    read = read_traffic(tmp_path / "step.1.et")
    assert (read.host_count, read.traffic.flow_count) == (3, 12)
    (tmp_path / "step.1.et").unlink()
    with pytest.raises(InputError, match=r"step\.1\.et"):
        read_traffic(tmp_path / "step.0.et")
    with pytest.raises(InputError, match="without its rank"):
        read_traffic(tmp_path / "step.et")
