"""Blueprints made from plans: the option, and the choice of the consumption option."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.blueprint.make import consumption_options, make_blueprint
from gpuyard.errors import InputError

from .samples import CATALOG, blueprint_of, plan_of


def test_consumption_option_is_the_recommended_unless_requested() -> None:
    blueprint = blueprint_of()
    expensive = replace(blueprint.option.bills[0], consumption="on-demand", usd=1e6)
    option = replace(blueprint.option, bills=(*blueprint.option.bills, expensive))
    plan = plan_of(replace(blueprint, option=option))
    assert make_blueprint(blueprint.workload, plan, 1, CATALOG).consumption == "spot"
    requested = make_blueprint(blueprint.workload, plan, 1, CATALOG, consumption="flex-start")
    assert requested.consumption == "flex-start"


def test_unknown_option_number_raises_input_error() -> None:
    blueprint = blueprint_of()
    with pytest.raises(InputError, match="no option 2"):
        make_blueprint(blueprint.workload, plan_of(blueprint), 2, CATALOG)


def test_unavailable_consumption_option_raises_input_error() -> None:
    blueprint = blueprint_of("a4x-highgpu-4g", consumption="reservation")
    assert consumption_options(blueprint.machine, blueprint.workload) == ("reservation",)
    with pytest.raises(InputError, match="not available as spot"):
        make_blueprint(blueprint.workload, plan_of(blueprint), 1, CATALOG, consumption="spot")


def test_workload_restricts_consumption_options() -> None:
    blueprint = blueprint_of()
    where = replace(blueprint.workload.where, consumption=("spot",))
    workload = replace(blueprint.workload, where=where)
    assert consumption_options(blueprint.machine, workload) == ("spot",)


def test_first_available_option_is_used_when_nothing_has_a_price() -> None:
    blueprint = blueprint_of("a4x-highgpu-4g", consumption="reservation")
    unpriced = replace(blueprint, option=replace(blueprint.option, bills=()))
    result = make_blueprint(unpriced.workload, plan_of(unpriced), 1, CATALOG)
    assert result.consumption == "reservation"
    assert result.usd_per_hour is None
    assert result.priced is None


def test_on_premises_machine_has_no_consumption_option() -> None:
    blueprint = blueprint_of("dgx-h100", consumption=None)
    result = make_blueprint(blueprint.workload, plan_of(blueprint), 1, CATALOG, consumption="spot")
    assert result.consumption is None
