"""How the replicas of a service map to machines."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.plan.service import Service


def service_of(blueprint: Blueprint) -> Service:
    """Return the service of an inference blueprint."""
    assert blueprint.option.service is not None
    return blueprint.option.service


def machines_per_replica(blueprint: Blueprint) -> int:
    """Return the machines of one replica, at least one."""
    chips = blueprint.machine.chip_count or 1.0
    return max(1, round(service_of(blueprint).chips_per_replica / chips))


def replicas_per_machine(blueprint: Blueprint) -> int:
    """Return the replicas that share one machine, at least one."""
    chips = service_of(blueprint).chips_per_replica
    return max(1, int(blueprint.machine.chip_count // chips)) if chips else 1
