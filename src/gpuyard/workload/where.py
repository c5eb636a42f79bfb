"""Where it may run: provider, platform, place, machines, and the ways to pay or the machines at hand."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog import Machine
from gpuyard.document import AtLeast, Doc

__all__ = ["ConsumptionName", "EngineName", "PlatformChoice", "ProviderName", "Stock", "Where", "matches", "region_of"]

ProviderName = Literal["google", "onprem", "local"]
PlatformChoice = Literal["compute-engine", "gke", "slurm", "vertex-ai", "cloud-run", "kubernetes"]
ConsumptionName = Literal["on-demand", "spot", "flex-start", "reservation"]
EngineName = Literal["local", "ray", "slurm", "kubernetes"]

_ZONE = re.compile(r"(?P<region>[a-z]+-[a-z]+[0-9]+)-(ai[0-9]+)?[a-z]")  # us-south1-ai1b is an AI zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Machines of one type that stand in a hall."""

    name: Annotated[str, Doc("a machine of the catalog")]
    count: Annotated[int, AtLeast(1), Doc("how many of them")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Limits on where the work may run; what is left out is not limited."""

    provider: Annotated[
        ProviderName, Doc("Google Cloud, machines of your own, or the machine that gpuyard runs on")
    ] = "google"
    platform: Annotated[
        PlatformChoice | None, Doc("what provisions the machines; default: chosen by what suits the task")
    ] = None
    region: Annotated[str | None, Doc("such as us-central1")] = None
    zone: Annotated[str | None, Doc("such as us-central1-a; tells the region too")] = None
    machines: Annotated[tuple[str, ...], Doc("only these machine types; * and ? stand for any letters")] = ()
    exclude: Annotated[tuple[str, ...], Doc("never these machine types; * and ? stand for any letters")] = ()
    max_chips: Annotated[int | None, AtLeast(1), Doc("the most accelerators to use")] = None
    consumption: Annotated[tuple[ConsumptionName, ...], Doc("ways to obtain the machines; default: any")] = ()
    inventory: Annotated[tuple[Stock, ...], Doc("your own machines, `type: count`; onprem only")] = ()
    switch: Annotated[str | None, Doc("the switch model to build the fabric with; onprem only")] = None
    engine: Annotated[EngineName | None, Doc("what starts the jobs; default: what the platform brings")] = None
    catalog: Annotated[tuple[str, ...], Doc("your own catalog files, beside this file")] = ()

    def allows(self, machine: Machine) -> bool:
        """True when provider, inventory, machines and exclude leave the machine in."""
        return (
            machine.provider == self.provider
            and (
                not self.inventory or any(stock.name.casefold() == machine.name.casefold() for stock in self.inventory)
            )
            and (not self.machines or any(matches(pattern, machine.name) for pattern in self.machines))
            and not any(matches(pattern, machine.name) for pattern in self.exclude)
        )


def region_of(zone: str) -> str | None:
    """The region of a zone such as us-central1-a; None where the text is not a zone's."""
    match = _ZONE.fullmatch(zone)
    return match["region"] if match else None


def matches(pattern: str, name: str) -> bool:
    """True when the name is of the pattern, capitals aside."""
    return fnmatch.fnmatchcase(name.casefold(), pattern.casefold())
