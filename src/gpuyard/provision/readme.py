"""The README of a deployment: what it is, what it can cost, the commands in order, and how it is taken back."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint import Blueprint
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.exposure import Exposure
from gpuyard.provision.platform import Artefacts, Step
from gpuyard.provision.settings import Place, Settings
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, show

__all__ = ["readme"]

DEFAULTS = Settings()


def readme(blueprint: Blueprint, place: Place, artefacts: Artefacts, exposure: Exposure, label: str) -> Artefact:
    """The file."""
    lines = [
        f"# {blueprint.name} on {label}",
        "",
        *_facts(blueprint, place, exposure, artefacts.unended),
        "",
        "## Before you apply",
        "",
        *(f"- {note}" for note in (*_placeholders(blueprint, place), *artefacts.notes)),
        "",
        "## Deploy",
        "",
        *_steps(artefacts.steps),
        *(("## Sit down", "", *_steps(artefacts.seating)) if artefacts.seating else ()),
        "## Take it back",
        "",
        *_undo(artefacts),
        "## Files",
        "",
        *(f"- `{item.name}`" for item in artefacts.files),
        "",
    ]
    return Artefact(name="README.md", text="\n".join(lines))


def _facts(blueprint: Blueprint, place: Place, exposure: Exposure, unended: str) -> Iterator[str]:
    """The decision in a table."""
    machine = blueprint.machine
    cost = "not known: no price is in the catalog"
    if exposure.usd_per_hour is not None and exposure.expected_usd is not None and exposure.largest_usd is not None:
        priced = f"; prices of {blueprint.priced.isoformat()}" if blueprint.priced else ""
        cost = (
            f"{show(exposure.usd_per_hour, PRICE_PER_HOUR)}, {show(exposure.expected_usd, MONEY)} expected, "
            f"{show(exposure.largest_usd, MONEY)} at the most{priced}"
        )
    ending = f"end {unended} yourself: no server does" if unended else "then the server ends it"
    rows = {
        "machines": f"{blueprint.machine_count:,} × {machine.name}" + (f" by {blueprint.way}" if blueprint.way else ""),
        "expected time": show(blueprint.expected_s, DURATION) if blueprint.has_end else "runs until it is ended",
        "machines cost": cost if blueprint.way else "bought",
        "lifetime": f"{show(place.ttl_s, DURATION)}, {ending} (expires-at {place.expires})",
        "plan-hash": f"`{place.hash}`",
    }
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {key} | {value} |" for key, value in rows.items())


def _placeholders(blueprint: Blueprint, place: Place) -> Iterator[str]:
    """What was not told and has to be right."""
    settings = place.settings
    cloud = blueprint.machine.provider == "google"
    if cloud and settings.project == DEFAULTS.project:
        yield f"`{settings.project}` is a placeholder: render again with --project."
    if cloud and place.zone_is_guessed:
        yield f"The zone {place.zone} is a guess: no source tells which zones have the machines. Name one with --zone."
    if blueprint.way == "reservation" and settings.reservation == DEFAULTS.reservation:
        yield f"`{settings.reservation}` is a placeholder: name your reservation with --reservation."
    if blueprint.workload.task in ("pretraining", "finetuning") and blueprint.option.storage:
        pick = next((pick for pick in blueprint.option.storage if pick.meets), None)
        if pick is not None and pick.storage != "cloud-storage-fuse":
            yield f"The plan's first storage is {pick.storage} ({pick.why}); the mounts here are Cloud Storage."


def _steps(steps: tuple[Step, ...]) -> Iterator[str]:
    """The steps, numbered."""
    for number, step in enumerate(steps, start=1):
        yield f"{number}. {step.what}"
        yield ""
        if not step.command:
            continue
        yield "   ```bash"
        yield from (f"   {line}" for line in step.command.splitlines())
        yield "   ```"
        yield ""


def _undo(artefacts: Artefacts) -> Iterator[str]:
    """The commands that take everything back, the last first."""
    undone = [step for step in reversed(artefacts.steps) if step.undo]
    if not undone:
        yield "Nothing is left behind."
        yield ""
        return
    yield "```bash"
    yield from (step.undo for step in undone)
    yield "```"
    yield ""
