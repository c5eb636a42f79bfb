"""Write docs/reference/provision-matrix.md: which platform deploys which machine series.

Every combination is rendered and linted (schemas, CEL rules, invariants) with every consumption
option of the catalog; a cell is filled only if there is no error and no warning.

python tools/provision_matrix.py            write the page
python tools/provision_matrix.py --check    fail if the page is out of date
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from gpuyard.blueprint.blueprint import Shape
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.catalog.machines import Machine
from gpuyard.document.field_types import Doc
from gpuyard.errors import Finding
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.lint import lint
from gpuyard.provision.platform import Platform, Unsuitable
from gpuyard.provision.platforms import PLATFORMS
from gpuyard.workload.where import ConsumptionName
from sample_blueprints import SHAPES, BlueprintSample, sample_blueprint, samples

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


PAGE = Path(__file__).parent.parent / "docs" / "reference" / "provision-matrix.md"
INTRODUCTION = (
    "The machine series that each platform can deploy. Written by `tools/provision_matrix.py`, "
    "which renders and lints every combination offline. "
    "M: training on several machines over their GPU fabric. S: fine-tuning on one machine. "
    "A: an autoscaled service; + with replicas of several machines. W: virtual workstations."
)
LETTERS = {"multi-node": "M", "single-node": "S", "service": "A", "workstations": "W"}


def page(tested: tuple[Cell, ...], series: tuple[str, ...]) -> str:
    """Return the page."""
    rendered = [cell for cell in tested if cell.is_rendered]
    clean = [cell for cell in rendered if not cell.findings]
    counts = (
        f"Of {len(tested):,} combinations of platform, machine series, work and consumption "
        f"option, {len(rendered):,} render, {len(clean):,} of them without an error or a warning. "
        "The reasons for the others are below."
    )
    lines = [
        "# Platform support matrix",
        "",
        INTRODUCTION,
        "",
        counts,
        "",
        "| series | " + " | ".join(platform.label for platform in PLATFORMS) + " |",
        "|---|" + "---|" * len(PLATFORMS),
    ]
    for name in series:
        row = [
            _cell([cell for cell in clean if (cell.series, cell.platform) == (name, it.name)])
            for it in PLATFORMS
        ]
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    lines += ["", "## Unsupported combinations", ""]
    for platform in PLATFORMS:
        lines += _reasons(
            platform.label, [cell for cell in tested if cell.platform == platform.name]
        )
    return "\n".join(lines) + "\n"


def _cell(clean: list[Cell]) -> str:
    letters = [LETTERS[shape] for shape in SHAPES if any(cell.shape == shape for cell in clean)]
    several = any(cell.shape == "service" and cell.machines_per_replica > 1 for cell in clean)
    return " ".join(letters) + ("+" if several else "") or "–"


def _reasons(label: str, tested: list[Cell]) -> list[str]:
    series_by_reason: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cell in tested:
        if not cell.is_rendered:
            why = cell.why_not.replace(cell.machine, "the machine")
            series_by_reason[why, cell.nearest].add(cell.series)
    if not series_by_reason:
        return [f"**{label}**: every combination renders.", ""]
    lines = [f"**{label}**", ""]
    for (why, nearest), names in sorted(series_by_reason.items()):
        hint = f"; nearest: {nearest}" if nearest else ""
        lines.append(f"- {why} ({', '.join(sorted(names))}{hint})")
    return [*lines, ""]


def main() -> int:
    """Write or check the page."""
    catalog = load_catalog()
    tested = tuple(cell for platform in PLATFORMS for cell in cells(platform, catalog))
    text = page(
        tested, tuple(dict.fromkeys(machine.series for machine in representatives(catalog)))
    )
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE} is out of date: run python tools/provision_matrix.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
