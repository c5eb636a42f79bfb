"""`gpuyard provision DIR --apply` and `--destroy`."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from pathlib import Path

from gpuyard.app.apply import (
    ApplyTarget,
    ExternalServices,
    apply_folder,
    connect,
    destroy_folder,
    prepare,
)
from gpuyard.cli.options import add_option, catalog_of, quantity
from gpuyard.errors import EXIT_EXTERNAL_ERROR, EXIT_OK, InputError
from gpuyard.provision.apply.calls import CallStep, KubernetesObject
from gpuyard.provision.apply.destroy import DeletionResult
from gpuyard.provision.apply.execute import ApplyResult
from gpuyard.provision.apply.journal import JOURNAL_FILE
from gpuyard.report.terminal import print_json, print_text
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, show


def _money(text: str) -> float:
    """Parse dollars: 500, $500, $1.2k; inf accepts that there is no maximum."""
    if text == "inf":
        return math.inf
    return quantity(MONEY)(text if text.startswith("$") else f"${text}")


def add_apply_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of apply and destroy."""
    group = parser.add_argument_group(
        "apply", "FILE is the rendered folder; the journal is FILE/" + JOURNAL_FILE
    )
    add_option(
        group, "--apply", "create the resources in the folder, or resume an interrupted apply"
    )
    add_option(group, "--destroy", "delete the resources that the folder created")
    add_option(group, "--yes", "confirm; without it only the cost or the list is shown")
    add_option(group, "--max-cost USD", "abort if the maximum cost exceeds this", type=_money)
    add_option(group, "--accept-stale", "apply even if prices are outdated")
    add_option(group, "--rollback", "if a step fails, delete what was created")
    add_option(group, "--context NAME", "kubectl context; default: the created cluster", default="")


def wants_apply(arguments: argparse.Namespace) -> bool:
    """Whether the command applies or destroys."""
    return bool(arguments.apply or arguments.destroy)


def run_apply(path: Path, arguments: argparse.Namespace) -> int:
    """Show the cost or the deletions, and do them once confirmed."""
    if arguments.apply and arguments.destroy:
        raise InputError.one("--destroy", "cannot be combined with --apply", "use one of them")
    prepared = prepare(path, arguments.context)
    if arguments.apply and prepared.target.deployment.settings.format == "terraform":
        fix = "run the steps of its README, or render it again with --format api"
        raise InputError.one(str(prepared.folder), "is rendered for Terraform", fix)
    if not arguments.json:
        print_text(_offer(prepared) if arguments.apply else _list(prepared))
    if not arguments.yes:
        what = "is missing: nothing was changed"
        fix = "add --yes" + (
            f" --max-cost {_cap(prepared)}" if arguments.apply and _is_billed(prepared) else ""
        )
        raise InputError.one("--yes", what, fix)
    if arguments.destroy:
        return print_removals(destroy_folder(prepared, _world(prepared)), arguments.json)
    if arguments.max_cost is None and _is_billed(prepared):
        raise InputError.one(
            "--max-cost",
            "is missing",
            f"write --max-cost {_cap(prepared)}: the maximum cost in USD",
        )
    applied = apply_folder(
        prepared,
        _world(prepared),
        most_usd=arguments.max_cost,
        accept_stale=arguments.accept_stale,
        rollback=arguments.rollback,
        catalog=catalog_of(arguments),
    )
    return _print_applied(prepared, applied, arguments.json)


def print_to_stderr(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _world(prepared: ApplyTarget) -> ExternalServices:
    return ExternalServices(
        endpoint=connect(is_needed=prepared.needs_google), on_progress=print_to_stderr
    )


def _is_billed(prepared: ApplyTarget) -> bool:
    return prepared.target.blueprint.consumption is not None


def _cap(prepared: ApplyTarget) -> str:
    largest = prepared.target.cost_bound.max_usd
    if prepared.target.cost_bound.unbounded:
        return "inf"
    return "USD" if largest is None else f"{largest + prepared.earlier_usd + 0.005:.2f}"


def _offer(prepared: ApplyTarget) -> str:
    """What would be created, and its maximum cost."""
    target = prepared.target
    blueprint, place, cost_bound = target.blueprint, target.settings, target.cost_bound
    consumption = f" by {blueprint.consumption}" if blueprint.consumption else ""
    machines = f"{blueprint.machine_count:,} × {blueprint.machine.name}{consumption}"
    lines = [
        f"{blueprint.name}: {machines} on {target.deployment.platform}",
        (
            f"  project {place.project}, {place.zone}; {len(prepared.steps)} steps, plan-hash"
            f" {target.plan_hash}"
        ),
    ]
    if (
        cost_bound.usd_per_hour is None
        or cost_bound.expected_usd is None
        or cost_bound.max_usd is None
    ):
        lines.append(
            f"  no upper bound: nothing terminates {cost_bound.unbounded}"
            if cost_bound.unbounded
            else "  no price known"
            if _is_billed(prepared)
            else "  on-premises machines: nothing is billed"
        )
    else:
        dated = f"; prices of {blueprint.priced}" if blueprint.priced else ""
        lines += [
            f"  rate      {show(cost_bound.usd_per_hour, PRICE_PER_HOUR)}{dated}",
            f"  expected  {show(cost_bound.expected_usd, MONEY)}",
            (
                f"  at most   {show(cost_bound.max_usd, MONEY)}: every machine for"
                f" {show(cost_bound.ttl_s, DURATION)}"
            ),
            *_earlier(prepared),
            "  not included: storage, network, control planes",
        ]
    if not blueprint.is_batch:
        lines.append(f"  no TTL is set: destroy it by {place.expires}")
    if prepared.is_resumed:
        lines.append("  resumes an interrupted apply")
    return "\n".join(lines)


def _earlier(prepared: ApplyTarget) -> tuple[str, ...]:
    if not prepared.earlier_usd:
        return ()
    return (f"  earlier   up to {show(prepared.earlier_usd, MONEY)} for attempts that are gone",)


def _list(prepared: ApplyTarget) -> str:
    head = f"to delete from {prepared.target.settings.project} (plan {prepared.target.plan_hash}):"
    lines = [f"  {step.what}" for step in reversed(prepared.steps) if _is_recorded(prepared, step)]
    return "\n".join([head, *(lines or ["  nothing: the journal records no resource"])])


def _is_recorded(prepared: ApplyTarget, step: CallStep) -> bool:
    return any(
        entry.step == step.step and entry.resource == step.reference for entry in prepared.entries
    )


def _print_applied(prepared: ApplyTarget, applied: ApplyResult, as_json: bool) -> int:
    failure = applied.failure
    by_hand = (*applied.remaining, *(step.step for step in prepared.manual))
    if as_json:
        print_json(
            {
                "makings": applied.results,
                "rollback": applied.rollback,
                "gap": applied.missing_prerequisite,
                "by_hand": by_hand,
            }
        )
        return EXIT_EXTERNAL_ERROR if failure else EXIT_OK
    if failure:
        print_text(f"failed: {failure.what}: {failure.why}\n  fix: {failure.fix}")
        if applied.rollback:
            print_removals(applied.rollback, as_json=False)
        else:
            print_text(
                "the created resources remain: resume with --apply, or delete them with\n"
                f"  gpuyard provision {prepared.folder} --destroy --yes"
            )
        return EXIT_EXTERNAL_ERROR
    created = sum(result.outcome == "created" for result in applied.results)
    print_text(
        f"{created} created, {len(applied.results) - created} already existed; "
        f"expires at {prepared.target.settings.expires}"
    )
    if by_hand:
        print_text(_by_hand(prepared, applied, by_hand))
    return EXIT_OK


def _by_hand(prepared: ApplyTarget, applied: ApplyResult, names: tuple[str, ...]) -> str:
    """Commands of the manual steps."""
    lines = [
        f"manual steps, see {prepared.folder}/README.md"
        + (f" ({applied.missing_prerequisite}):" if applied.missing_prerequisite else ":")
    ]
    steps = {step.step: step for step in prepared.steps}
    for name in names:
        step = steps.get(name)
        line = f"  {name}"
        if isinstance(step, KubernetesObject):
            place = f" --context={shlex.quote(step.context)}" if step.context else ""
            line = f"  kubectl{place} apply -f {shlex.quote(str(prepared.folder / step.file))}"
        if line not in lines:  # several objects of one file
            lines.append(line)
    return "\n".join(lines)


def print_removals(removals: tuple[DeletionResult, ...], as_json: bool) -> int:
    """Print every deletion and return the exit code; a failed one is an external error."""
    failed = [removal for removal in removals if removal.outcome == "failed"]
    if as_json:
        print_json({"removals": removals})
        return EXIT_EXTERNAL_ERROR if failed else EXIT_OK
    for removal in removals:
        if removal.outcome in ("failed", "retained"):
            fix = f"\n  fix: {removal.fix}" if removal.fix else ""
            print_text(f"{removal.outcome}: {removal.what}: {removal.why}{fix}")
    gone = sum(removal.outcome in ("deleted", "did not exist") for removal in removals)
    print_text(f"{gone} of {len(removals)} deleted and confirmed")
    return EXIT_EXTERNAL_ERROR if failed else EXIT_OK
