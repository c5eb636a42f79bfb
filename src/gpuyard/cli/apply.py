"""`gpuyard provision DIR --apply` and `--destroy`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpuyard.app.apply import Prepared, World, apply_folder, connect, destroy_folder, prepare
from gpuyard.cli.exits import EXIT_DONE, EXIT_REFUSED
from gpuyard.cli.options import catalog_layers, quantity
from gpuyard.errors import InputError
from gpuyard.provision.apply import JOURNAL_FILE, Applied, Removal
from gpuyard.provision.apply.calls import Manifest
from gpuyard.report import print_json, print_text
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, show

__all__ = ["add_apply_arguments", "print_removals", "run_apply", "tell", "wants_apply"]


def _money(text: str) -> float:
    """Dollars, with or without their sign: 500, $500, $1.2k."""
    return quantity(MONEY)(text if text.startswith("$") else f"${text}")


def add_apply_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that make or remove what a folder describes."""
    group = parser.add_argument_group("apply", "FILE is then the folder that was written; journal: DIR/" + JOURNAL_FILE)
    group.add_argument("--apply", action="store_true", help="make what the folder describes, or go on making it")
    group.add_argument("--destroy", action="store_true", help="remove what the folder's plan made")
    group.add_argument("--yes", action="store_true", help="do it; without it the cost or the list is shown")
    group.add_argument("--max-cost", type=_money, metavar="USD", help="refuse if the largest possible bill is higher")
    group.add_argument("--accept-stale", action="store_true", help="apply although its prices are old")
    group.add_argument("--rollback", action="store_true", help="if a step fails, remove what was made")
    group.add_argument("--context", default="", metavar="NAME", help="of kubectl; default: the cluster that is made")


def wants_apply(arguments: argparse.Namespace) -> bool:
    """Whether the command makes or removes something."""
    return bool(arguments.apply or arguments.destroy)


def run_apply(path: Path, arguments: argparse.Namespace) -> int:
    """Shows what it costs or removes, and does it when that was confirmed."""
    if arguments.apply and arguments.destroy:
        raise InputError.one("--destroy", "cannot be given with --apply", "give one of them")
    prepared = prepare(path, arguments.context)
    if not arguments.json:
        print_text(_offer(prepared) if arguments.apply else _list(prepared))
    if not arguments.yes:
        what = "is missing: nothing was done"
        fix = "add --yes" + (f" --max-cost {_cap(prepared)}" if arguments.apply and _is_billed(prepared) else "")
        raise InputError.one("--yes", what, fix)
    if arguments.destroy:
        return print_removals(destroy_folder(prepared, _world(prepared)), arguments.json)
    if arguments.max_cost is None and _is_billed(prepared):
        raise InputError.one("--max-cost", "is missing", f"write --max-cost {_cap(prepared)}: the largest bill in USD")
    applied = apply_folder(
        prepared, _world(prepared), most_usd=arguments.max_cost,
        accept_stale=arguments.accept_stale, rollback=arguments.rollback, layers=catalog_layers(arguments),
    )  # fmt: skip
    return _print_applied(prepared, applied, arguments.json)


def tell(text: str) -> None:
    """How far it is, on standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _world(prepared: Prepared) -> World:
    """The way to what the folder needs."""
    return World(endpoint=connect(is_needed=prepared.needs_google), tell=tell)


def _is_billed(prepared: Prepared) -> bool:
    """Whether machines are paid for by the hour; bought ones are not."""
    return prepared.target.blueprint.way is not None


def _cap(prepared: Prepared) -> str:
    """The largest bill as a flag's value."""
    largest = prepared.target.exposure.largest_usd
    return "USD" if largest is None else f"{largest + 0.005:.2f}"


def _offer(prepared: Prepared) -> str:
    """What would be made, and what that can cost."""
    target = prepared.target
    blueprint, place, exposure = target.blueprint, target.place, target.exposure
    way = f" by {blueprint.way}" if blueprint.way else ""
    machines = f"{blueprint.machine_count:,} × {blueprint.machine.name}{way}"
    lines = [
        f"{blueprint.name}: {machines} on {target.deployment.platform}",
        f"  project {place.project}, {place.zone}; {len(prepared.steps)} steps, plan-hash {target.label}",
    ]
    if exposure.usd_per_hour is None or exposure.expected_usd is None or exposure.largest_usd is None:
        lines.append("  no price is known" if _is_billed(prepared) else "  the machines are bought: nothing is billed")
    else:
        dated = f"; prices of {blueprint.priced}" if blueprint.priced else ""
        lines += [
            f"  rate      {show(exposure.usd_per_hour, PRICE_PER_HOUR)}{dated}",
            f"  expected  {show(exposure.expected_usd, MONEY)}",
            f"  at most   {show(exposure.largest_usd, MONEY)}: every machine for {show(exposure.ttl_s, DURATION)}",
            "  storage, network and control planes are not in it",
        ]
    if not blueprint.has_end:
        lines.append(f"  it has no end of its own: destroy it, at the latest at {place.expires}")
    if prepared.is_resumed:
        lines.append("  an earlier run began it: this one goes on where that stopped")
    return "\n".join(lines)


def _list(prepared: Prepared) -> str:
    """What would be removed."""
    head = f"to remove from {prepared.target.place.project}, where it is of plan {prepared.target.label}:"
    return "\n".join([head, *(f"  {step.what}" for step in reversed(prepared.steps))])


def _print_applied(prepared: Prepared, applied: Applied, as_json: bool) -> int:
    """What became of the steps, and what is left to do."""
    failure = applied.failure
    by_hand = (*applied.remaining, *(step.step for step in prepared.manual))
    if as_json:
        print_json({"makings": applied.makings, "rollback": applied.rollback, "gap": applied.gap, "by_hand": by_hand})
        return EXIT_REFUSED if failure else EXIT_DONE
    if failure:
        print_text(f"failed: {failure.what}: {failure.why}\n  fix: {failure.fix}")
        if applied.rollback:
            print_removals(applied.rollback, as_json=False)
        else:
            print_text(
                f"what was made stands: go on with --apply, or take it back with\n"
                f"  gpuyard provision {prepared.folder} --destroy --yes"
            )
        return EXIT_REFUSED
    made = sum(making.end == "made" for making in applied.makings)
    print_text(f"made {made}, stood already {len(applied.makings) - made}; it ends at {prepared.target.place.expires}")
    if by_hand:
        print_text(_by_hand(prepared, applied, by_hand))
    return EXIT_DONE


def _by_hand(prepared: Prepared, applied: Applied, names: tuple[str, ...]) -> str:
    """The commands of the steps that are for hands."""
    lines = [f"by hand, as {prepared.folder}/README.md says" + (f" ({applied.gap}):" if applied.gap else ":")]
    manifests = {step.step: step for step in prepared.steps if isinstance(step, Manifest)}
    for name in names:
        context = manifests[name].context if name in manifests else ""
        place = f" --context={context}" if context else ""
        lines.append(f"  kubectl{place} apply -f {prepared.folder / name}" if name in manifests else f"  {name}")
    return "\n".join(lines)


def print_removals(removals: tuple[Removal, ...], as_json: bool) -> int:
    """What became of everything, and the exit code: removals that failed are the world's refusal."""
    failed = [removal for removal in removals if removal.end == "failed"]
    if as_json:
        print_json({"removals": removals})
        return EXIT_REFUSED if failed else EXIT_DONE
    for removal in removals:
        if removal.end in ("failed", "kept"):
            fix = f"\n  fix: {removal.fix}" if removal.fix else ""
            print_text(f"{removal.end}: {removal.what}: {removal.why}{fix}")
    gone = sum(removal.end in ("removed", "was not there") for removal in removals)
    print_text(f"{gone} of {len(removals)} are gone, each seen to be")
    return EXIT_REFUSED if failed else EXIT_DONE
