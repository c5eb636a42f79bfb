"""What must hold before a call is made that costs money: a fresh rendering, a known price, a bound on the bill."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from typing import cast

from gpuyard.document import Plain
from gpuyard.errors import InputError, Problem
from gpuyard.provision.apply.calls import Call, CallStep
from gpuyard.provision.apply.target import AGAIN, Target
from gpuyard.provision.deployment import DEPLOYMENT
from gpuyard.provision.settings import Settings

__all__ = ["PRICE_DAYS", "check_gates", "lifetime_problems"]

HOUR_S = 3600
PRICE_DAYS = 120  # a season and a month: list prices of accelerators change a few times a year
FRESH_S = 24 * HOUR_S
DAY_S = 24 * HOUR_S
PLACEHOLDER = Settings().project
# Where a body says when the server ends it, and how it must end. Durations are {"seconds": "60"} or "60s".
ENDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "compute.instances.insert": (("scheduling", "maxRunDuration"),),
    "compute.instanceTemplates.insert": (("properties", "scheduling", "maxRunDuration"),),
    "compute.instanceGroupManagerResizeRequests.insert": (("requestedRunDuration",),),
    "aiplatform.projects.locations.customJobs.create": (("jobSpec", "scheduling", "timeout"),),
}


def check_gates(
    target: Target,
    steps: tuple[CallStep, ...],
    now_s: float,
    most_usd: float | None,
    *,
    accept_stale: bool,
    is_resumed: bool,
) -> None:
    """InputError with everything that speaks against applying it now."""
    problems = [
        *_bill_problems(target, most_usd),
        *([] if accept_stale else _price_problems(target, now_s)),
        *([] if is_resumed else _age_problems(target, now_s)),
        *lifetime_problems(target, steps),
    ]
    if target.place.project == PLACEHOLDER and any(isinstance(step, Call) for step in steps):
        problems.append(
            Problem(where=DEPLOYMENT, what=f"the project is still {PLACEHOLDER}", fix=f"{AGAIN} --project NAME")
        )
    reservation = target.place.settings.reservation
    if target.blueprint.way == "reservation" and reservation == Settings().reservation:
        what = f"the reservation is still {reservation}"
        problems.append(Problem(where=DEPLOYMENT, what=what, fix=f"{AGAIN} --reservation NAME"))
    if problems:
        raise InputError(problems)


def _bill_problems(target: Target, most_usd: float | None) -> Iterator[Problem]:
    """The largest bill must be known, and below what was allowed; bought machines have none."""
    if target.blueprint.way is None:
        return
    largest = target.exposure.largest_usd
    if largest is None:
        fix = "add a dated price of your own (see the guide on your own catalog), and plan again"
        yield Problem(where=DEPLOYMENT, what=f"no price of {target.blueprint.machine.name} is known", fix=fix)
    elif most_usd is None:
        fix = f"write --max-cost {largest:.2f} or more: it is the largest possible bill in USD"
        yield Problem(where="--max-cost", what="is missing", fix=fix)
    elif largest > most_usd:
        hours = most_usd / largest * target.place.ttl_s / HOUR_S
        what = f"{most_usd:.2f} USD is less than the largest possible bill, {largest:.2f} USD"
        yield Problem(where="--max-cost", what=what, fix=f"allow more, or render it with --ttl {hours:.1f}h or less")


def _price_problems(target: Target, now_s: float) -> Iterator[Problem]:
    """Prices must be of this season."""
    priced = target.blueprint.priced
    if priced is None:
        return  # no price at all is told above
    today = datetime.datetime.fromtimestamp(now_s, tz=datetime.UTC).date()
    age = (today - priced).days
    if age > PRICE_DAYS:
        what = f"its prices are of {priced}, {age} days old; more than {PRICE_DAYS} are too many"
        fix = "update the prices and plan again, or add --accept-stale if you know that they hold"
        yield Problem(where=DEPLOYMENT, what=what, fix=fix)


def _age_problems(target: Target, now_s: float) -> Iterator[Problem]:
    """What is applied for the first time must have been rendered today: its labels say when it ends."""
    if now_s - target.deployment.settings.made_s > FRESH_S:
        moment = datetime.datetime.fromtimestamp(target.deployment.settings.made_s, tz=datetime.UTC)
        what = f"it was rendered on {moment:%Y-%m-%d %H:%M} UTC: its labels would say a wrong end"
        yield Problem(where=DEPLOYMENT, what=what, fix=AGAIN)


def lifetime_problems(target: Target, steps: tuple[CallStep, ...]) -> Iterator[Problem]:
    """Every machine has an end that the server keeps, no later than the one that the bill counts with."""
    for step in steps:
        if not isinstance(step, Call):
            continue
        body = cast(Plain, json.loads(step.body))
        for path in ENDS.get(step.method, ()):
            where = f"{step.step}: body.{'.'.join(path)}"
            seconds = _seconds(_at(body, path))
            if seconds is None:
                yield Problem(where=where, what="is missing: the server would never end it", fix=AGAIN)
            elif seconds > target.place.ttl_s:
                what = f"{seconds} s is longer than the lifetime that the bill counts with, {target.place.ttl_s} s"
                yield Problem(where=where, what=what, fix=AGAIN)
            if path[-2:-1] == ("scheduling",) and step.api.startswith("compute"):
                action = _at(body, (*path[:-1], "instanceTerminationAction"))
                if action != "DELETE":
                    place = f"{step.step}: body.{'.'.join(path[:-1])}.instanceTerminationAction"
                    yield Problem(where=place, what="is not DELETE: a stopped machine is billed on", fix=AGAIN)


def _at(tree: Plain, path: tuple[str, ...]) -> Plain:
    """The value at a path; None where there is none."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _seconds(value: Plain) -> int | None:
    """A duration in seconds."""
    text = str(value.get("seconds", "") if isinstance(value, dict) else value or "")
    found = re.fullmatch(r"(\d+)s?", text)
    return int(found.group(1)) if found else None
