"""Collectives: rings inside a domain, ports beyond it; more ranks or less bandwidth is never quicker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.collectives import (
    ClosedForm,
    NetworkModel,
    RankGroup,
    exchange_s,
    gather_s,
    send_s,
)
from gpuyard.perf.layout import TrainingChip

from .cases import chip, number, scaled

CONSTANTS = read_calibration().constants
sizes = st.floats(1e3, 1e11)
powers = st.sampled_from([2**n for n in range(13)])
strides = st.sampled_from((1, 2, 4, 8, 64))
more = st.floats(1.0, 10.0)
CHIP = chip("h100-sxm")


def gather(
    size: float, ranks: float, stride: float = 1.0, on: TrainingChip = CHIP, calls: float = 1.0
) -> float:
    return float(gather_s(number(size), number(ranks), number(stride), on, CONSTANTS, calls))


def exchange(
    size: float, ranks: float, once: float = 0.0, on: TrainingChip = CHIP, copies: float = 8.0
) -> float:
    found = exchange_s(
        number(size), number(ranks), number(1), number(copies), number(once), on, CONSTANTS
    )
    return float(found)


@given(sizes, strides)
def test_one_rank_communicates_nothing(size: float, stride: float) -> None:
    assert gather(size, 1, stride) == 0.0


@given(sizes, st.sampled_from((2, 4, 8)))
def test_ring_inside_scale_up_domain(size: float, ranks: int) -> None:
    rate = float(CHIP.scaleup_bytes_per_s) * CONSTANTS.scaleup_ratio
    ring = (ranks - 1) / ranks * size / rate
    assert gather(size, ranks) == pytest.approx(ring + CONSTANTS.scaleup_latency_s)


def test_members_of_a_node_share_its_ports() -> None:
    size = 1e11  # bandwidth, not latency
    near, far = gather(size, 64, 1), gather(size, 64, 8)  # eight members a node, one member a node
    assert far == pytest.approx(63 / 64 * size / (50e9 * CONSTANTS.nic_ratio), rel=0.01)
    assert near < far / 4


@given(sizes, powers, strides)
def test_more_ranks_are_never_quicker(size: float, ranks: int, stride: float) -> None:
    assert gather(size, 2 * ranks, stride) >= gather(size, ranks, stride)


@given(sizes, powers, strides, more)
def test_more_bandwidth_is_never_slower(
    size: float, ranks: int, stride: float, times: float
) -> None:
    quick = scaled(CHIP, times, "scaleup_bytes_per_s", "nic_bytes_per_s")
    assert gather(size, ranks, stride, quick) <= gather(size, ranks, stride)
    assert exchange(size, ranks, on=quick) <= exchange(size, ranks)
    sent = [float(send_s(number(size), number(stride), on, CONSTANTS)) for on in (quick, CHIP)]
    assert sent[0] <= sent[1]


@given(sizes, powers, strides, more)
def test_larger_messages_and_more_calls_are_never_quicker(
    size: float, ranks: int, stride: float, times: float
) -> None:
    assert gather(size * times, ranks, stride) >= gather(size, ranks, stride)
    assert gather(size, ranks, stride, calls=times) >= gather(size, ranks, stride)


@given(sizes, powers, st.integers(1, 16))
def test_token_that_crosses_once_is_never_slower(size: float, ranks: int, copies: int) -> None:
    assert exchange(size, ranks, 1.0, copies=copies) <= exchange(
        size, ranks, 0.0, copies=copies
    ) * (1 + 1e-12)


@given(sizes, powers, strides)
def test_closed_forms_are_a_network_model(size: float, ranks: int, stride: float) -> None:
    network: NetworkModel = ClosedForm(chip=CHIP, constants=CONSTANTS)
    group = RankGroup(stride=number(stride))
    names = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send")
    found = {
        name: float(network.time_s(name, number(size), number(ranks), group)) for name in names
    }
    assert found["all-gather"] == found["reduce-scatter"] == gather(size, ranks, stride)
    assert found["all-reduce"] == 2.0 * found["all-gather"]
    assert found["send"] == float(send_s(number(size), number(stride), CHIP, CONSTANTS))
    assert found["all-to-all"] >= 0.0


def test_neighbour_is_nearer_than_the_network() -> None:
    inside, outside = (
        float(send_s(number(1e8), number(stride), CHIP, CONSTANTS)) for stride in (1, 8)
    )
    assert inside < outside
