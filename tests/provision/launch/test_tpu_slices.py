"""TPU slices: topologies and slice counts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.provision.launch.tpu_slices import slices_of
from sample_blueprints import BlueprintSample, sample_blueprint

CATALOG = load_catalog()


def decision(machine: str, count: int) -> Blueprint:
    row = next(item for item in CATALOG.machines if item.name == machine)
    blueprint = sample_blueprint(
        BlueprintSample(machine=row, shape="multi-node", consumption="spot"), CATALOG
    )
    cluster = replace(blueprint.option.cluster, machine_count=count)
    return replace(blueprint, option=replace(blueprint.option, cluster=cluster))


@settings(max_examples=60, deadline=None)
@given(
    machine=st.sampled_from(["ct6e-standard-4t", "ct5p-hightpu-4t", "tpu7x-standard-4t"]),
    count=st.integers(1, 600),
)
def test_slices_have_exactly_the_planned_chips(machine: str, count: int) -> None:
    result = slices_of(decision(machine, count))
    if isinstance(result, Infeasible):
        return
    chips = math.prod(int(side) for side in result.topology.split("x"))
    assert chips == result.machines_per_slice * result.chips_per_machine
    assert result.slice_count * result.machines_per_slice == count
    assert chips <= result.generation.pod_chips
    assert len(result.topology.split("x")) == result.generation.axes


@pytest.mark.parametrize(
    ("machine", "count", "topology", "slices"),
    [
        ("ct6e-standard-4t", 4, "4x4", 1),
        ("ct6e-standard-4t", 64, "16x16", 1),
        ("ct6e-standard-4t", 128, "16x16", 2),
        ("ct5p-hightpu-4t", 16, "4x4x4", 1),
        ("ct5p-hightpu-4t", 64, "4x8x8", 1),
        ("tpu7x-standard-4t", 1, "2x2x1", 1),
    ],
)
def test_slice_topologies_match_documentation(
    machine: str, count: int, topology: str, slices: int
) -> None:
    result = slices_of(decision(machine, count))
    assert not isinstance(result, Infeasible)
    assert (result.topology, result.slice_count) == (topology, slices)


def test_single_host_machines_are_separate_slices() -> None:
    result = slices_of(decision("ct6e-standard-8t", 3))
    assert not isinstance(result, Infeasible)
    assert (result.topology, result.slice_count) == ("2x4", 3)
