"""What a deployment can cost: by the hour, as expected, and at the most before the server ends it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint import Blueprint
from gpuyard.document import Doc
from gpuyard.provision.launch import machines_per_replica, replicas_per_machine, serving_of
from gpuyard.provision.settings import Place

__all__ = ["Exposure", "exposure_of", "most_machines"]

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Money at stake; what has no price is missing. Storage, network and control planes are not in it."""

    ttl_s: float
    usd_per_hour: Annotated[float | None, Doc("of all machines that are planned")] = None
    expected_usd: float | None = None
    largest_usd: Annotated[
        float | None, Doc("all machines that it may have, until the end of its lifetime or commitment")
    ] = None


def most_machines(blueprint: Blueprint) -> int:
    """The most machines that the deployment may have at once."""
    if blueprint.shape != "service":
        return blueprint.machine_count
    most = max(1, serving_of(blueprint).autoscaling.most_replicas, serving_of(blueprint).autoscaling.least_replicas)
    return math.ceil(most / replicas_per_machine(blueprint)) * machines_per_replica(blueprint)


def exposure_of(blueprint: Blueprint, place: Place) -> Exposure:
    """What the deployment can cost."""
    rate, hours = blueprint.usd_per_hour, place.ttl_s / HOUR_S
    if rate is None or blueprint.bill is None:
        return Exposure(ttl_s=place.ttl_s)
    expected = blueprint.bill.usd if blueprint.has_end else rate * hours
    paid_hours = max(hours, blueprint.bill.term_s / HOUR_S)  # a commitment is paid to its end
    largest = rate / blueprint.machine_count * most_machines(blueprint) * paid_hours
    return Exposure(usd_per_hour=rate, expected_usd=expected, largest_usd=max(expected, largest), ttl_s=place.ttl_s)
