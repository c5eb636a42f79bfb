"""MSCCL algorithms as traffic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.simulate.flow.flow_engine import simulate_flows
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.msccl import read_msccl
from gpuyard.simulate.network import single_switch

RING = (Path(__file__).parents[2] / "examples" / "allreduce.xml").read_text(encoding="utf-8")


def algorithm(*gpus: str, ngpus: int = 2) -> str:
    body = "".join(f'<gpu id="{number}">{blocks}</gpu>' for number, blocks in enumerate(gpus))
    return f'<algo name="a" nchunksperloop="2" nchannels="1" ngpus="{ngpus}" coll="custom">{body}</algo>'


def block(*steps: str, send: int = -1, receive: int = -1, number: int = 0) -> str:
    return f'<tb id="{number}" send="{send}" recv="{receive}" chan="0">{"".join(steps)}</tb>'


def step(kind: str, dep: tuple[int, int] = (-1, -1), count: int = 1) -> str:
    return f'<step s="0" type="{kind}" cnt="{count}" depid="{dep[0]}" deps="{dep[1]}" hasdep="0"/>'


def test_msccl_ring_sends_bytes_of_ring_all_reduce() -> None:
    made = read_msccl(RING, 4e6)
    traffic = made.traffic
    assert (made.rank_count, made.collective) == (4, "allreduce")
    assert traffic.flow_count == 4 * 2 * 3
    assert set(traffic.size_bytes.tolist()) == {1_000_000}
    waits = np.diff(traffic.after_index)
    assert np.count_nonzero(waits == 0) == 4  # the first message of each
    network = single_switch(4, rate_bits_per_s=400e9, delay_s=0.0)
    done = simulate_flows(
        network, traffic, FlowSettings(header_bytes=0, store_and_forward=False)
    ).outcome
    assert done.duration_s == pytest.approx(
        6 * 1e6 / 50e9, rel=1e-3
    )  # six steps, one after the other


def test_local_steps_hand_on_what_they_wait_for() -> None:
    first = block(step("r"), send=-1, receive=1) + block(
        step("nop", (0, 0)), step("s"), send=1, number=1
    )
    made = read_msccl(
        algorithm(first, block(step("s"), send=0) + block(step("r"), receive=0, number=1)), 2e6
    )
    order = {int(source): number for number, source in enumerate(made.traffic.source)}
    index, after = made.traffic.after_index, made.traffic.after
    own = order[0]
    assert after[index[own] : index[own + 1]].tolist() == [order[1]]


def test_chunks_share_the_size() -> None:
    made = read_msccl(
        algorithm(block(step("s", count=2), send=1), block(step("r", count=2), receive=0)), 10e6
    )
    assert made.traffic.size_bytes.tolist() == [10_000_000]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<algo", "not XML"),
        ("<other/>", "begins with <other>"),
        (algorithm(block(step("jump"), send=1)), 'no step of type "jump"'),
        (algorithm(block(step("s"))), "s without a peer"),
        (algorithm(block(step("s"), send=1)), "1 sends and 0 receives"),
        (algorithm(block(step("s"), send=5)), "a peer beyond the 2 GPUs"),
        (algorithm(block(step("nop"))), "nothing is sent"),
        (
            algorithm(block(step("s", (7, 0)), send=1), block(step("r"), receive=0)),
            "waits for tb 7 step 0",
        ),
        (RING.replace('ngpus="4"', 'ngpus="four"'), 'ngpus is "four"'),
    ],
)
def test_invalid_file_names_problem_and_place(text: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        read_msccl(text, 1e6, "a.xml")
    assert what in str(caught.value)
    assert "a.xml" in caught.value.problems[0].where
