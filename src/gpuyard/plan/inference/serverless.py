"""Cloud Run: GPU instances that scale with the traffic, and their cost at a load."""

from __future__ import annotations

import datetime
import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.catalog.machines import Machine
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_file
from gpuyard.plan.cost import SERVICE_PERIOD_S
from gpuyard.plan.option import Bill
from gpuyard.units import BYTES, DURATION, PRICE_PER_HOUR
from gpuyard.workload.where import Where

GIB = 2.0**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An instance type with a GPU."""

    name: str
    chip: str
    vcpu_count: int
    memory_bytes: Annotated[float, BYTES]
    vcpu_usd_per_hour: Annotated[float, PRICE_PER_HOUR]
    gib_usd_per_hour: Annotated[float, PRICE_PER_HOUR]
    start_s: Annotated[float, DURATION]
    idle_s: Annotated[float, DURATION]
    regions: tuple[str, ...]
    source: str
    date: datetime.date
    gpu_usd_per_hour: Annotated[float | None, PRICE_PER_HOUR] = None

    @property
    def usd_per_hour(self) -> float | None:
        """Price of a running instance; None if the price of its GPU is unknown."""
        if self.gpu_usd_per_hour is None:
            return None
        host = (
            self.vcpu_count * self.vcpu_usd_per_hour
            + self.memory_bytes / GIB * self.gib_usd_per_hour
        )
        return self.gpu_usd_per_hour + host


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    instances: tuple[Instance, ...]


@functools.cache
def _read() -> tuple[Instance, ...]:
    path = Path(__file__).parent.parent / "data" / "serverless.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).instances


def instance_for(machine: Machine, where: Where) -> Instance | None:
    """Return the instance type with the machine's GPU, if platform and region offer it."""
    if (
        machine.platforms.cloud_run != "yes"
        or machine.chip_count != 1
        or where.platform not in (None, "cloud-run")
    ):
        return None
    if where.consumption and "on-demand" not in where.consumption:
        return None
    instance = next((item for item in _read() if item.chip == machine.chip), None)
    if instance is None or (where.region is not None and where.region not in instance.regions):
        return None
    return instance


def alive_ratio(requests_per_s: float, idle_s: float) -> float:
    """Return the fraction of time that an instance is up; it stops after `idle_s` without requests.

    Gaps of random arrivals are exponential, so a fraction exp(-rate x idle) of them is longer;
    the mean up time per gap is that of min(gap, idle), (1 - exp(-rate x idle)) / rate.
    """
    return -math.expm1(-requests_per_s * idle_s)


def serverless_bill(
    instance: Instance, replicas: int, requests_per_s: float, where: Where
) -> Bill | None:
    """Return one hour of instances that scale to zero, or None without a price."""
    usd_per_instance = instance.usd_per_hour
    if usd_per_instance is None:
        return None
    share = alive_ratio(requests_per_s / replicas, instance.idle_s)
    usd_per_hour = usd_per_instance * replicas * share
    uptime = "always up at this load" if share > 0.999 else f"up {share:.0%} of the time"
    return Bill(
        consumption="on-demand",
        region=where.region or instance.regions[0],
        price=f"serverless/{instance.name}",
        usd_per_hour=usd_per_hour,
        billed_s=SERVICE_PERIOD_S,
        usd=usd_per_hour,
        note=(
            f"Cloud Run: {replicas} instance{'s' * (replicas > 1)} with {instance.vcpu_count} vCPU "
            f"and {instance.memory_bytes / GIB:g} GiB, {uptime}, scales to zero; "
            f"GPU without zonal redundancy; prices of {instance.date}"
        ),
        expected_s=SERVICE_PERIOD_S,
    )
