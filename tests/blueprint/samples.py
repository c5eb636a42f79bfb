"""Blueprints for the tests of this package."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint, Shape
from gpuyard.catalog.load import load_catalog
from gpuyard.plan.option import Plan
from gpuyard.workload.where import ConsumptionName
from sample_blueprints import BlueprintSample, sample_blueprint

CATALOG = load_catalog()


def blueprint_of(
    machine: str = "a3-megagpu-8g",
    shape: Shape = "multi-node",
    consumption: ConsumptionName | None = "spot",
) -> Blueprint:
    row = CATALOG.machine(machine)
    sample = BlueprintSample(machine=row, shape=shape, consumption=consumption)
    return sample_blueprint(sample, CATALOG)


def plan_of(blueprint: Blueprint) -> Plan:
    return Plan(
        workload="w", task="pretraining", options=(blueprint.option,), rejected=(), searched_count=1
    )
