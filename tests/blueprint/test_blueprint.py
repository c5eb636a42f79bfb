"""Blueprint: shape, batch jobs, workstation sessions and cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.blueprint.blueprint import Shape
from gpuyard.workload.sections import Graphics
from sample_blueprints import SHAPES

from .samples import blueprint_of


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_follows_task_and_machine_count(shape: Shape) -> None:
    blueprint = blueprint_of("g2-standard-4", shape)
    assert blueprint.shape == shape
    assert blueprint.is_batch == (shape in ("multi-node", "single-node"))


def test_video_streams_are_not_batch_jobs() -> None:
    blueprint = blueprint_of()
    graphics = Graphics(use="video")
    video = replace(blueprint, workload=replace(blueprint.workload, graphics=graphics))
    assert video.is_independent
    assert not video.is_batch


@pytest.mark.parametrize(("sessions", "per_machine"), [(1, 1), (2, 1), (3, 2), (None, 1)])
def test_sessions_per_machine_round_up(sessions: int | None, per_machine: int) -> None:
    blueprint = blueprint_of("g2-standard-4", "workstations")
    assert blueprint.machine_count == 2
    assert blueprint.workload.graphics is not None
    graphics = replace(blueprint.workload.graphics, sessions_count=sessions)
    resized = replace(blueprint, workload=replace(blueprint.workload, graphics=graphics))
    assert resized.sessions_per_machine == per_machine


def test_bill_is_the_cheapest_of_the_consumption_option() -> None:
    blueprint = blueprint_of()
    (bill,) = blueprint.option.bills
    bills = (
        replace(bill, usd=900.0, usd_per_hour=9.0),
        replace(bill, usd=500.0, usd_per_hour=5.0),
        replace(bill, usd=100.0, consumption="on-demand"),
    )
    priced = replace(blueprint, option=replace(blueprint.option, bills=bills))
    assert priced.bill == bills[1]
    assert priced.usd_per_hour == 5.0
    assert replace(priced, consumption="flex-start").usd_per_hour is None
