"""Writes docs/reference/provision-matrix.md: which platform deploys which machine series for which work.

Every combination is rendered and checked (schemas, CEL rules, invariants), by every way of paying that the catalog
offers; a cell is filled only where no error and no warning was found.

python tools/provision_matrix.py            write it
python tools/provision_matrix.py --check    fail if it is not what the code says
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from gpuyard.catalog import load_catalog
from gpuyard.provision.matrix import Cell, cells, representatives
from gpuyard.provision.platforms import PLATFORMS
from gpuyard.provision.samples import SHAPES

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "provision-matrix.md"
INTRODUCTION = (
    "Written by `tools/provision_matrix.py`, which renders every combination and checks it offline. "
    "M: training over several machines with their GPU fabric. S: fine-tuning on one machine. "
    "A: an autoscaled service; + with replicas of several machines. D: desks, the virtual workstations of people."
)
LETTERS = {"multi-node": "M", "single-node": "S", "service": "A", "desks": "D"}


def page(found: tuple[Cell, ...], series: tuple[str, ...]) -> str:
    """The page."""
    made = [cell for cell in found if cell.is_rendered]
    unsound = [cell for cell in made if cell.findings]
    counts = (
        f"{len(found):,} combinations of platform, machine series, work and way of paying were tried; {len(made):,} "
        f"render, {len(made) - len(unsound):,} of them without an error or a warning. Why the others do not is below."
    )
    lines = [
        "# What deploys where",
        "",
        INTRODUCTION,
        "",
        counts,
        "",
        "| series | " + " | ".join(platform.label for platform in PLATFORMS) + " |",
        "|---|" + "---|" * len(PLATFORMS),
    ]
    for name in series:
        row = [_cell([cell for cell in made if cell.series == name and cell.platform == it.name]) for it in PLATFORMS]
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    lines += ["", "## Why not", ""]
    for platform in PLATFORMS:
        lines += _reasons(platform.label, [cell for cell in found if cell.platform == platform.name])
    return "\n".join(lines) + "\n"


def _cell(found: list[Cell]) -> str:
    """The letters of what a platform does with a series."""
    sound = [cell for cell in found if not cell.findings]
    letters = [LETTERS[shape] for shape in SHAPES if any(cell.shape == shape for cell in sound)]
    several = any(cell.shape == "service" and cell.machines_per_replica > 1 for cell in sound)
    return " ".join(letters) + ("+" if several else "") or "–"


def _reasons(label: str, found: list[Cell]) -> list[str]:
    """The reasons of a platform, each with the series it stands against."""
    against: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cell in found:
        if not cell.is_rendered:
            against[cell.why_not.replace(cell.machine, "the machine"), cell.nearest].add(cell.series)
    if not against:
        return [f"**{label}**: nothing is refused.", ""]
    lines = [f"**{label}**", ""]
    for (why, nearest), names in sorted(against.items()):
        there = f"; nearest: {nearest}" if nearest else ""
        lines.append(f"- {why} ({', '.join(sorted(names))}{there})")
    return [*lines, ""]


def main() -> int:
    """Writes or checks the page."""
    catalog = load_catalog()
    found = tuple(cell for platform in PLATFORMS for cell in cells(platform, catalog))
    text = page(found, tuple(dict.fromkeys(machine.series for machine in representatives(catalog))))
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE} is not what the code says: run python tools/provision_matrix.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
