"""Which platform deploys which machine for which work: every combination rendered and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.blueprint import Shape
from gpuyard.catalog import Catalog, Machine
from gpuyard.document import Doc
from gpuyard.provision.finding import Finding
from gpuyard.provision.lint import lint
from gpuyard.provision.platform import Platform, Unsuitable
from gpuyard.provision.samples import Sample, sample_blueprint, samples
from gpuyard.provision.settings import Settings
from gpuyard.workload import ConsumptionName

__all__ = ["Cell", "cells", "representatives", "tried"]

SETTINGS = Settings(project="my-project", owner="somebody", made_s=1_800_000_000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination: what was rendered and found, or why the platform cannot do it."""

    platform: str
    machine: str
    series: str
    shape: Shape
    way: ConsumptionName | None
    machines_per_replica: int
    why_not: Annotated[str, Doc("empty: it was rendered")] = ""
    nearest: str = ""
    files: tuple[str, ...] = ()
    findings: Annotated[tuple[Finding, ...], Doc("errors and warnings")] = ()
    fabric: Annotated[str, Doc("yes, no or unsure, where pods use a GPU fabric")] = ""

    @property
    def is_rendered(self) -> bool:
        """True where there are files."""
        return not self.why_not


def representatives(catalog: Catalog) -> tuple[Machine, ...]:
    """The largest machine of each series that holds accelerators, and the largest that Cloud Run has."""
    largest: dict[tuple[str, str | None], Machine] = {}
    for machine in catalog.machines:
        if machine.is_accelerated and machine.provider in ("google", "onprem"):
            key = (machine.series, machine.platforms.cloud_run)
            kept = largest.get(key)
            if kept is None or (machine.multi_host, machine.chip_count) > (kept.multi_host, kept.chip_count):
                largest[key] = machine
    return tuple(largest.values())


def tried(platform: Platform, sample: Sample, catalog: Catalog, machines_per_replica: int = 1) -> Cell:
    """One combination, rendered and checked."""
    blueprint = sample_blueprint(sample, catalog, machines_per_replica)
    found = platform.render(blueprint, SETTINGS)
    blank = Cell(
        platform=platform.name, machine=sample.machine.name, series=sample.machine.series, shape=sample.shape,
        way=sample.way, machines_per_replica=machines_per_replica,
    )  # fmt: skip
    if isinstance(found, Unsuitable):
        return replace(blank, why_not=found.why, nearest=found.nearest)
    said = lint(found.files, catalog)
    verdicts = {reach.verdict for reach in said.fabrics}
    return replace(
        blank,
        files=tuple(item.name for item in found.files),
        findings=(*said.errors, *said.warnings),
        fabric="yes" if verdicts == {"yes"} else ", ".join(sorted(verdicts)),
    )


def cells(platform: Platform, catalog: Catalog) -> Iterator[Cell]:
    """The representatives of all series in every shape and by every way, and services of several machines."""
    chosen = {machine.name for machine in representatives(catalog)}
    for sample in samples(catalog):
        if sample.machine.name not in chosen:
            continue
        yield tried(platform, sample, catalog)
        if sample.shape == "service" and sample.machine.multi_host:
            yield tried(platform, sample, catalog, machines_per_replica=2)
