"""Cost bound of a deployment: hourly, expected and maximum cost until its TTL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.field_types import Doc, FormerName
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.replicas import machines_per_replica, replicas_per_machine, service_of
from gpuyard.units import HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBound:
    """Cost of the machines, without storage, network and control planes; None without a price."""

    ttl_s: float
    usd_per_hour: Annotated[float | None, Doc("of all planned machines")] = None
    expected_usd: float | None = None
    max_usd: Annotated[
        float | None,
        FormerName("largest_usd"),
        Doc("of the maximum number of machines until the TTL or the end of the commitment"),
    ] = None
    unbounded: Annotated[
        str, Doc("what nothing terminates, so that there is no maximum; empty: all of it ends")
    ] = ""


def max_machines(blueprint: Blueprint) -> int:
    """Return the maximum number of machines of the deployment at once."""
    if blueprint.shape != "service":
        return blueprint.machine_count
    if service_of(blueprint).prefill is not None:  # pools of a fixed size
        return blueprint.machine_count
    scaling = service_of(blueprint).autoscaling
    replicas = max(1, scaling.max_replicas, scaling.min_replicas)
    return math.ceil(replicas / replicas_per_machine(blueprint)) * machines_per_replica(blueprint)


def cost_bound_of(
    blueprint: Blueprint, settings: ResolvedSettings, unbounded: str = ""
) -> CostBound:
    """Return what the deployment can cost; `unbounded` names what nothing terminates."""
    rate = blueprint.usd_per_hour
    if rate is None or blueprint.bill is None:
        return CostBound(ttl_s=settings.ttl_s, unbounded=unbounded)
    hours = settings.ttl_s / HOUR_S
    expected = blueprint.bill.usd if blueprint.is_batch else rate * hours
    billed_hours = max(hours, blueprint.bill.term_s / HOUR_S)  # a commitment is billed to its end
    maximum = rate / blueprint.machine_count * max_machines(blueprint) * billed_hours
    return CostBound(
        usd_per_hour=rate,
        expected_usd=expected,
        max_usd=None if unbounded else max(expected, maximum),
        ttl_s=settings.ttl_s,
        unbounded=unbounded,
    )
