"""Cloud Run: instances with one GPU that come and go with the traffic, and what they cost at a load."""

from __future__ import annotations

import datetime
import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.catalog import Machine
from gpuyard.document import Keys, decode, read_file
from gpuyard.plan.cost import HOUR_S
from gpuyard.plan.option import Bill
from gpuyard.units import BYTES, DURATION, PRICE_PER_HOUR
from gpuyard.workload import Where

__all__ = ["Instance", "alive_ratio", "instance_for", "serverless_bill"]


GIB = 2.0**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One kind of instance with a GPU."""

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
        """One instance that is up; None where no public price of its GPU is known."""
        if self.gpu_usd_per_hour is None:
            return None
        host = self.vcpu_count * self.vcpu_usd_per_hour + self.memory_bytes / GIB * self.gib_usd_per_hour
        return self.gpu_usd_per_hour + host


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The data file."""

    instances: tuple[Instance, ...]


@functools.cache
def _read() -> tuple[Instance, ...]:
    """The instances that are known."""
    path = Path(__file__).parent.parent / "data" / "serverless.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).instances


def instance_for(machine: Machine, where: Where) -> Instance | None:
    """The instance with the machine's one GPU, where the platform and the region offer it."""
    if machine.platforms.cloud_run != "yes" or machine.chip_count != 1 or where.platform not in (None, "cloud-run"):
        return None
    if where.consumption and "on-demand" not in where.consumption:
        return None
    found = next((item for item in _read() if item.chip == machine.chip), None)
    return found if found and (where.region is None or where.region in found.regions) else None


def alive_ratio(requests_per_s: float, idle_s: float) -> float:
    """The share of time that an instance is up: a gap between arrivals longer than `idle_s` ends it.

    Gaps of random arrivals are exponential, so a share exp(-rate x idle) of them outlasts the wait; up time a gap is
    the mean of min(gap, idle) = (1 - exp(-rate x idle)) / rate.
    """
    return -math.expm1(-requests_per_s * idle_s)


def serverless_bill(instance: Instance, replicas: int, requests_per_s: float, where: Where) -> Bill | None:
    """An hour at the load on instances that scale to zero; None where no price is known."""
    each = instance.usd_per_hour
    if each is None:
        return None
    share = alive_ratio(requests_per_s / replicas, instance.idle_s)
    usd_per_hour = each * replicas * share
    up = "always up at this load" if share > 0.999 else f"up {share:.0%} of the time"
    return Bill(
        way="on-demand",
        region=where.region or instance.regions[0],
        price=f"serverless/{instance.name}",
        usd_per_hour=usd_per_hour,
        billed_s=HOUR_S,
        usd=usd_per_hour,
        note=(
            f"Cloud Run: {replicas} instance{'s' * (replicas > 1)} with {instance.vcpu_count} vCPU and "
            f"{instance.memory_bytes / GIB:g} GiB, "
            f"{up}, none without traffic; GPU without zonal redundancy; prices of {instance.date}"
        ),
        expected_s=HOUR_S,
    )
