"""TPU slices: topologies hold the chips, and the fewest slices are taken."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.blueprint import Blueprint
from gpuyard.catalog import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.provision.platforms.slices import slices_of
from gpuyard.provision.samples import Sample, sample_blueprint

CATALOG = load_catalog()


def decision(machine: str, count: int) -> Blueprint:
    row = next(item for item in CATALOG.machines if item.name == machine)
    blueprint = sample_blueprint(Sample(machine=row, shape="multi-node", way="spot"), CATALOG)
    cluster = replace(blueprint.option.cluster, machine_count=count)
    return replace(blueprint, option=replace(blueprint.option, cluster=cluster))


@settings(max_examples=60, deadline=None)
@given(machine=st.sampled_from(["ct6e-standard-4t", "ct5p-hightpu-4t", "tpu7x-standard-4t"]), count=st.integers(1, 600))
def test_slices_hold_exactly_the_chips(machine: str, count: int) -> None:
    found = slices_of(decision(machine, count))
    if isinstance(found, Infeasible):
        return
    chips = math.prod(int(side) for side in found.topology.split("x"))
    assert chips == found.machines_per_slice * found.chips_per_machine
    assert found.slice_count * found.machines_per_slice == count
    assert chips <= found.generation.pod_chips
    assert len(found.topology.split("x")) == found.generation.axes


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
def test_known_topologies(machine: str, count: int, topology: str, slices: int) -> None:
    found = slices_of(decision(machine, count))
    assert not isinstance(found, Infeasible)
    assert (found.topology, found.slice_count) == (topology, slices)


def test_machines_that_stand_alone_are_slices_by_themselves() -> None:
    found = slices_of(decision("ct6e-standard-8t", 3))
    assert not isinstance(found, Infeasible)
    assert (found.topology, found.slice_count) == ("2x4", 3)
