"""The simulated network as the step-time model's network model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.collectives import ClosedForm, RankGroup
from gpuyard.perf.layout import TrainingChip
from gpuyard.simulate.flow.model import flow_model
from gpuyard.simulate.flow.rails import rail_network
from gpuyard.simulate.flow.settings import FlowSettings

C = read_calibration().constants
NIC, NVLINK = 50e9, 450e9


def machine() -> TrainingChip:
    names = {name: np.ones(()) for name in TrainingChip.__dataclass_fields__}
    names |= {
        "scaleup_bytes_per_s": np.array(NVLINK),
        "nic_bytes_per_s": np.array(NIC),
        "scaleup_chips": np.array(8.0),
        "board_chips": np.array(8.0),
        "generation": np.array(1),
    }
    return TrainingChip(**names)


def network(servers=16, **more):
    return rail_network(
        servers,
        8,
        nic_bits_per_s=8 * NIC,
        scale_up_bits_per_s=8 * NVLINK,
        servers_per_leaf=4,
        spines=4,
        **more,
    )


@pytest.mark.parametrize(
    "collective", ["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"]
)
def test_uncongested_fabric_matches_closed_form(collective) -> None:
    simulated = flow_model(network(), C, FlowSettings(balance="spray"))
    closed = ClosedForm(chip=machine(), constants=C)
    ranks = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 128.0])
    size = np.full(ranks.shape, 1e9)
    for stride in (1.0, 8.0):
        counts = np.minimum(ranks, 128.0 / stride)
        group = RankGroup(stride=np.array(stride), calls=3.0)
        one, other = (
            simulated.time_s(collective, size, counts, group),
            closed.time_s(collective, size, counts, group),
        )
        kept = counts > 1
        np.testing.assert_allclose(one[kept], other[kept], rtol=0.02)


def test_shapes_are_simulated_once_and_arrays_broadcast() -> None:
    model = flow_model(network(), C)
    size = np.geomspace(1e3, 1e9, 7)[:, None]
    ranks = np.array([2.0, 8.0, 64.0])[None, :]
    times = model.time_s("all-gather", size, ranks)
    assert times.shape == (7, 3)
    assert len(model.memo) == 3
    assert (np.diff(times, axis=0) >= 0).all()


def test_hashing_and_oversubscription_cost_time() -> None:
    group = RankGroup(stride=np.array(8.0))
    size, ranks = np.array(1e9), np.array(16.0)
    free = flow_model(network(), C, FlowSettings(balance="spray")).time_s(
        "all-gather", size, ranks, group
    )
    tight = flow_model(network(oversubscription_ratio=8.0), C, FlowSettings(balance="spray"))
    assert tight.time_s("all-gather", size, ranks, group) > 1.5 * free
    hashed = flow_model(network(), C, FlowSettings()).time_s("all-to-all", size, np.array(128.0))
    sprayed = flow_model(network(), C, FlowSettings(balance="spray")).time_s(
        "all-to-all", size, np.array(128.0)
    )
    assert hashed > 1.05 * sprayed


def test_one_port_is_slower_and_oversized_groups_are_reported() -> None:
    model = flow_model(network(), C)
    size, ranks = np.array(1e9), np.array(128.0)
    assert model.time_s("all-gather", size, ranks, RankGroup(one_port=np.ones(()))) > model.time_s(
        "all-gather", size, ranks
    )
    with pytest.raises(InputError, match="do not fit 128 hosts"):
        model.time_s("all-gather", size, np.array(256.0))
    assert replace(model, memo={}).memo == {}
