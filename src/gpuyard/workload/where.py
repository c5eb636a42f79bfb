"""Where a workload can run: provider, platform, region, machines, consumption, inventory."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.machines import Machine
from gpuyard.document.field_types import AtLeast, Doc

ProviderName = Literal[
    "google",
    "aws",
    "azure",
    "coreweave",
    "lambda",
    "nebius",
    "oci",
    "runpod",
    "any",
    "onprem",
    "local",
]
PlatformChoice = Literal["compute-engine", "gke", "slurm", "vertex-ai", "cloud-run", "kubernetes"]
ConsumptionName = Literal["on-demand", "spot", "flex-start", "reservation"]
EngineName = Literal["local", "ray", "slurm", "kubernetes"]

# us-south1-ai1b is an AI zone
_ZONE = re.compile(r"(?P<region>[a-z]+-[a-z]+[0-9]+)-(ai[0-9]+)?[a-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryItem:
    """Your own machines of one type."""

    name: Annotated[str, Doc("a catalog machine")]
    count: Annotated[int, AtLeast(1), Doc("number of machines")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Limits on where the work can run; a key left out is not limited."""

    provider: Annotated[
        ProviderName,
        Doc("a cloud, `any` cloud, your own machines, or the host that gpuyard runs on"),
    ] = "google"
    platform: Annotated[
        PlatformChoice | None,
        Doc("provisioning platform; default: the best fit for the task"),
    ] = None
    region: Annotated[str | None, Doc("such as us-central1")] = None
    zone: Annotated[str | None, Doc("such as us-central1-a; implies the region")] = None
    machines: Annotated[tuple[str, ...], Doc("allowed machine types; * and ? are wildcards")] = ()
    exclude: Annotated[tuple[str, ...], Doc("excluded machine types; * and ? are wildcards")] = ()
    max_chips: Annotated[int | None, AtLeast(1), Doc("maximum number of accelerators")] = None
    consumption: Annotated[
        tuple[ConsumptionName, ...], Doc("consumption options; default: any")
    ] = ()
    inventory: Annotated[
        tuple[InventoryItem, ...], Doc("your own machines, `type: count`; onprem only")
    ] = ()
    cluster: Annotated[
        tuple[InventoryItem, ...],
        Doc("exactly these machines, `type: count`: what they do, and what would be better"),
    ] = ()
    switch: Annotated[str | None, Doc("switch model of the fabric; onprem only")] = None
    engine: Annotated[
        EngineName | None, Doc("execution engine of the jobs; default: the platform's")
    ] = None
    catalog: Annotated[tuple[str, ...], Doc("your own catalog files, relative to this file")] = ()

    def allows(self, machine: Machine) -> bool:
        """Return True if provider, inventory, machines and exclude allow the machine."""
        return (
            self.includes(machine.provider)
            and (
                not self.inventory
                or any(item.name.casefold() == machine.name.casefold() for item in self.inventory)
            )
            and (not self.cluster or self.exact_count(machine) is not None)
            and (
                not self.machines
                or any(matches(pattern, machine.name) for pattern in self.machines)
            )
            and not any(matches(pattern, machine.name) for pattern in self.exclude)
        )

    def includes(self, provider: str) -> bool:
        """Return True if machines of this provider are planned."""
        return provider == self.provider or (self.provider == "any" and provider != "onprem")

    def exact_count(self, machine: Machine) -> int | None:
        """Return the count of the machine under `cluster`, or None."""
        name = machine.name.casefold()
        return next((item.count for item in self.cluster if item.name.casefold() == name), None)


def region_of(zone: str) -> str | None:
    """Return the region of a zone such as us-central1-a, or None if the text is not a zone."""
    match = _ZONE.fullmatch(zone)
    return match["region"] if match else None


def matches(pattern: str, name: str) -> bool:
    """Return True if the name matches the pattern, ignoring case."""
    return fnmatch.fnmatchcase(name.casefold(), pattern.casefold())
