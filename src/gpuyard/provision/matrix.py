"""Platform support matrix: every combination of platform, machine and work, rendered and linted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.blueprint.blueprint import Shape
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.document.field_types import Doc
from gpuyard.errors import Finding
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.lint import lint
from gpuyard.provision.platform import Platform, Unsuitable
from gpuyard.provision.sample_blueprints import BlueprintSample, sample_blueprint, samples
from gpuyard.workload.where import ConsumptionName

SETTINGS = DeploymentSettings(project="my-project", owner="somebody", rendered_s=1_800_000_000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination: its files and findings, or why the platform cannot deploy it."""

    platform: str
    machine: str
    series: str
    shape: Shape
    consumption: ConsumptionName | None
    machines_per_replica: int
    why_not: Annotated[str, Doc("empty: it was rendered")] = ""
    nearest: str = ""
    files: tuple[str, ...] = ()
    findings: Annotated[tuple[Finding, ...], Doc("errors and warnings")] = ()
    fabric: Annotated[str, Doc("yes, no or unsure, if pods use a GPU fabric")] = ""

    @property
    def is_rendered(self) -> bool:
        """True if there are files."""
        return not self.why_not


def representatives(catalog: Catalog) -> tuple[Machine, ...]:
    """Return the largest accelerator machine of each series, also among those of Cloud Run."""

    def size(machine: Machine) -> tuple[bool, float]:
        return machine.multi_host, machine.chip_count

    largest: dict[tuple[str, str | None], Machine] = {}
    for machine in catalog.machines:
        if machine.is_accelerated and machine.provider in ("google", "onprem"):
            key = (machine.series, machine.platforms.cloud_run)
            if key not in largest or size(machine) > size(largest[key]):
                largest[key] = machine
    return tuple(largest.values())


def render_cell(
    platform: Platform, sample: BlueprintSample, catalog: Catalog, machines_per_replica: int = 1
) -> Cell:
    """Render and lint one combination."""
    blueprint = sample_blueprint(sample, catalog, machines_per_replica)
    artefacts = platform.render(blueprint, resolve_settings(blueprint, SETTINGS))
    blank = Cell(
        platform=platform.name,
        machine=sample.machine.name,
        series=sample.machine.series,
        shape=sample.shape,
        consumption=sample.consumption,
        machines_per_replica=machines_per_replica,
    )
    if isinstance(artefacts, Unsuitable):
        return replace(blank, why_not=artefacts.why, nearest=artefacts.nearest)
    result = lint(artefacts.files, catalog)
    verdicts = sorted({access.verdict for access in result.fabrics})
    return replace(
        blank,
        files=tuple(item.name for item in artefacts.files),
        findings=(*result.errors, *result.warnings),
        fabric=", ".join(verdicts),
    )


def cells(platform: Platform, catalog: Catalog) -> Iterator[Cell]:
    """Yield the cells of one platform, with multi-machine replicas of services."""
    names = {machine.name for machine in representatives(catalog)}
    for sample in samples(catalog):
        if sample.machine.name not in names:
            continue
        yield render_cell(platform, sample, catalog)
        if sample.shape == "service" and sample.machine.multi_host:
            yield render_cell(platform, sample, catalog, machines_per_replica=2)
