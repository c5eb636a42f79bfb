"""The README of a deployment: facts, cost, commands in order, and how to delete it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.cost_bound import CostBound
from gpuyard.provision.deployment_settings import DeploymentSettings, ResolvedSettings
from gpuyard.provision.platform import Artefacts, DeployStep
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, show

DEFAULTS = DeploymentSettings()


def readme(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    artefacts: Artefacts,
    cost_bound: CostBound,
    label: str,
) -> Artefact:
    """Return README.md of a rendered deployment."""
    notes = (*_placeholders(blueprint, settings), *artefacts.notes)
    access = artefacts.user_access
    lines = [
        f"# {blueprint.name} on {label}",
        "",
        *_facts(blueprint, settings, cost_bound, artefacts.without_ttl),
        "",
        "## Before you apply",
        "",
        *(f"- {note}" for note in notes),
        "",
        "## Deploy",
        "",
        *_steps(artefacts.steps),
        *(("## Connect", "", *_steps(access)) if access else ()),
        "## Delete",
        "",
        *_undo(artefacts),
        "## Files",
        "",
        *(f"- `{item.name}`" for item in (*artefacts.files, *artefacts.extra_files)),
        "",
    ]
    return Artefact(name="README.md", text="\n".join(lines))


def _facts(
    blueprint: Blueprint, settings: ResolvedSettings, cost_bound: CostBound, without_ttl: str
) -> Iterator[str]:
    machines = f"{blueprint.machine_count:,} × {blueprint.machine.name}"
    if blueprint.consumption:
        machines += f", {blueprint.consumption}"
    duration = show(blueprint.expected_s, DURATION) if blueprint.is_batch else "until it is stopped"
    end = f"delete {without_ttl} yourself" if without_ttl else "then the provider terminates it"
    rows = {
        "machines": machines,
        "expected time": duration,
        "cost of machines": _cost(blueprint, cost_bound),
        "TTL": f"{show(settings.ttl_s, DURATION)}, {end} (expires-at {settings.expires})",
        "plan-hash": f"`{settings.hash}`",
    }
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {key} | {value} |" for key, value in rows.items())


def _cost(blueprint: Blueprint, bound: CostBound) -> str:
    if not blueprint.consumption:
        return "on-premises"
    if bound.unbounded and bound.usd_per_hour is not None and bound.expected_usd is not None:
        return (
            f"{show(bound.usd_per_hour, PRICE_PER_HOUR)}, {show(bound.expected_usd, MONEY)} "
            f"until the expiry date, **no upper bound**: nothing terminates {bound.unbounded}"
        )
    if bound.usd_per_hour is None or bound.expected_usd is None or bound.max_usd is None:
        return "not known: the catalog has no price"
    dated = f"; prices of {blueprint.priced.isoformat()}" if blueprint.priced else ""
    return (
        f"{show(bound.usd_per_hour, PRICE_PER_HOUR)}, "
        f"{show(bound.expected_usd, MONEY)} expected, "
        f"{show(bound.max_usd, MONEY)} at most{dated}"
    )


def _placeholders(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[str]:
    requested = settings.requested
    is_cloud = blueprint.machine.provider == "google"
    if is_cloud and requested.project == DEFAULTS.project:
        yield f"`{requested.project}` is a placeholder: render again with --project."
    if is_cloud and settings.zone_is_guessed:
        yield (
            f"The zone {settings.zone} is a guess: the zones with these machines are unknown. "
            "Set one with --zone."
        )
    if blueprint.consumption == "reservation" and requested.reservation == DEFAULTS.reservation:
        yield f"`{requested.reservation}` is a placeholder: set yours with --reservation."
    if blueprint.workload.task in ("pretraining", "finetuning") and blueprint.option.storage:
        pick = next((pick for pick in blueprint.option.storage if pick.meets), None)
        if pick is not None and pick.storage != "cloud-storage-fuse":
            yield (
                f"The plan's first storage is {pick.storage} ({pick.why}); "
                "these files mount Cloud Storage."
            )


def _steps(steps: tuple[DeployStep, ...]) -> Iterator[str]:
    for number, step in enumerate(steps, start=1):
        yield f"{number}. {step.what}"
        yield ""
        if step.command:
            yield "   ```bash"
            yield from (f"   {line}" for line in step.command.splitlines())
            yield "   ```"
            yield ""


def _undo(artefacts: Artefacts) -> Iterator[str]:
    commands = [step.undo for step in reversed(artefacts.steps) if step.undo]
    if commands:
        yield "```bash"
        yield from commands
        yield "```"
    else:
        yield "There is nothing to delete."
    yield ""
