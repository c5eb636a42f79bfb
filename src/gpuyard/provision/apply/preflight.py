"""Preflight checks of every apply, also a resumed one: age, price, maximum cost, TTLs, project."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterator
from typing import cast

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import InputError, Problem
from gpuyard.provision.apply.calls import ApiCall, CallStep
from gpuyard.provision.apply.rendered_deployment import RENDER_AGAIN, RenderedDeployment
from gpuyard.provision.deployment import DEPLOYMENT
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.units import DAY_S, HOUR_S

MAX_PRICE_AGE_DAYS = 120  # list prices of accelerators change a few times per year
MAX_RENDERING_AGE_S = DAY_S
DEFAULTS = DeploymentSettings()
# Where the body of a method says when the provider terminates the resource.
# Durations are {"seconds": "60"} or "60s".
TTL_PATHS: dict[str, tuple[str, ...]] = {
    "compute.instances.insert": ("scheduling", "maxRunDuration"),
    "compute.instanceTemplates.insert": ("properties", "scheduling", "maxRunDuration"),
    "compute.instanceGroupManagerResizeRequests.insert": ("requestedRunDuration",),
    "aiplatform.projects.locations.customJobs.create": ("jobSpec", "scheduling", "timeout"),
}


def check_preflight(
    rendered: RenderedDeployment,
    steps: tuple[CallStep, ...],
    now_s: float,
    max_usd: float | None,
    *,
    accept_stale: bool,
    earlier_usd: float = 0.0,
) -> None:
    """Raise InputError with every reason not to apply a deployment now.

    `earlier_usd` is the most that earlier attempts have cost; --max-cost bounds it as well.
    """
    problems = [
        *_cost_problems(rendered, max_usd, earlier_usd),
        *([] if accept_stale else _price_age_problems(rendered, now_s)),
        *folder_problems(rendered, steps, now_s),
    ]
    if problems:
        raise InputError(problems)


def folder_problems(
    rendered: RenderedDeployment, steps: tuple[CallStep, ...], now_s: float
) -> Iterator[Problem]:
    """Yield the reasons in the folder itself not to apply it now, prices aside."""
    yield from _rendering_age_problems(rendered, now_s)
    yield from ttl_problems(rendered, steps)
    yield from _placeholder_problems(rendered, steps)
    yield from _project_problems(rendered, steps)


def _cost_problems(
    rendered: RenderedDeployment, max_usd: float | None, earlier_usd: float
) -> Iterator[Problem]:
    """The maximum cost must be known and allowed; on-premises machines have none."""
    if rendered.blueprint.consumption is None:
        return
    largest = rendered.cost_bound.max_usd
    if rendered.cost_bound.unbounded:
        if max_usd is None or not math.isinf(max_usd):
            what = f"there is no maximum cost: nothing terminates {rendered.cost_bound.unbounded}"
            fix = "write --max-cost inf to accept that, or deploy it on a platform with an end"
            yield Problem(where="--max-cost", what=what, fix=fix)
    elif largest is None:
        what = f"no price of {rendered.blueprint.machine.name} is known"
        fix = "add a dated price to your own catalog file, then plan again"
        yield Problem(where=DEPLOYMENT, what=what, fix=fix)
    elif max_usd is None:
        fix = f"add --max-cost {largest + earlier_usd:.2f} or more: the maximum cost in USD"
        yield Problem(where="--max-cost", what="is missing", fix=fix)
    elif earlier_usd and largest + earlier_usd > max_usd:
        what = (
            f"{max_usd:.2f} USD is less than the maximum cost, {largest:.2f} USD, "
            f"and the cost of earlier attempts, up to {earlier_usd:.2f} USD"
        )
        yield Problem(where="--max-cost", what=what, fix="allow more, or delete it with --destroy")
    elif largest > max_usd:
        hours = max_usd / largest * rendered.settings.ttl_s / HOUR_S
        what = f"{max_usd:.2f} USD is less than the maximum cost, {largest:.2f} USD"
        fix = f"allow more, or render it with --ttl {hours:.1f}h or less"
        yield Problem(where="--max-cost", what=what, fix=fix)


def _price_age_problems(rendered: RenderedDeployment, now_s: float) -> Iterator[Problem]:
    priced = rendered.blueprint.priced
    if priced is None:
        return  # a missing price is a cost problem
    age_days = (_utc(now_s).date() - priced).days
    if age_days > MAX_PRICE_AGE_DAYS:
        what = f"its prices are from {priced}, {age_days} days old (limit {MAX_PRICE_AGE_DAYS})"
        fix = "update the prices and plan again, or add --accept-stale if they still hold"
        yield Problem(where=DEPLOYMENT, what=what, fix=fix)


def _rendering_age_problems(rendered: RenderedDeployment, now_s: float) -> Iterator[Problem]:
    # The label expires-at counts from the rendering, so what is created must follow it soon:
    # `gpuyard sweep --expired` would delete machines that still run.
    rendered_s = rendered.deployment.settings.rendered_s
    if now_s - rendered_s > MAX_RENDERING_AGE_S:
        what = (
            f"rendered on {_utc(rendered_s):%Y-%m-%d %H:%M} UTC: its expiry labels would be wrong"
        )
        fix = f"delete what exists with --destroy, then {RENDER_AGAIN}"
        yield Problem(where=DEPLOYMENT, what=what, fix=fix)


def _placeholder_problems(
    rendered: RenderedDeployment, steps: tuple[CallStep, ...]
) -> Iterator[Problem]:
    project = rendered.settings.project
    if project == DEFAULTS.project and any(isinstance(step, ApiCall) for step in steps):
        what = f"the project is still the placeholder {project}"
        yield Problem(where=DEPLOYMENT, what=what, fix=f"{RENDER_AGAIN} --project NAME")
    reservation = rendered.settings.requested.reservation
    if rendered.blueprint.consumption == "reservation" and reservation == DEFAULTS.reservation:
        what = f"the reservation is still the placeholder {reservation}"
        yield Problem(where=DEPLOYMENT, what=what, fix=f"{RENDER_AGAIN} --reservation NAME")


def _project_problems(
    rendered: RenderedDeployment, steps: tuple[CallStep, ...]
) -> Iterator[Problem]:
    for step in steps:
        if isinstance(step, ApiCall) and step.project != rendered.settings.project:
            what = f"calls project {step.project}, not {rendered.settings.project}"
            yield Problem(where=step.step, what=what, fix=RENDER_AGAIN)


def ttl_problems(rendered: RenderedDeployment, steps: tuple[CallStep, ...]) -> Iterator[Problem]:
    """Yield the machines whose TTL is missing, stops them only, or exceeds the costed lifetime."""
    limit_s = rendered.settings.ttl_s
    for step in steps:
        path = TTL_PATHS.get(step.method) if isinstance(step, ApiCall) else None
        if not isinstance(step, ApiCall) or path is None:
            continue
        body = cast(Plain, json.loads(step.body))
        where = f"{step.step}: body.{'.'.join(path)}"
        ttl_s = _seconds(_at(body, path))
        if ttl_s is None:
            ttl_s = _ttl_of_fixed_end(rendered, _at(body, (*path[:-1], "terminationTime")))
        if ttl_s is None:
            what = "is missing: the provider would never terminate it"
            yield Problem(where=where, what=what, fix=RENDER_AGAIN)
        elif ttl_s > limit_s:
            what = f"{ttl_s} s exceeds the lifetime in the cost estimate, {limit_s} s"
            yield Problem(where=where, what=what, fix=RENDER_AGAIN)
        if path[-2:-1] == ("scheduling",) and step.api.startswith("compute"):
            action_path = (*path[:-1], "instanceTerminationAction")
            if _at(body, action_path) != "DELETE":
                where = f"{step.step}: body.{'.'.join(action_path)}"
                what = "is not DELETE: a stopped machine is still billed"
                yield Problem(where=where, what=what, fix=RENDER_AGAIN)


def _ttl_of_fixed_end(rendered: RenderedDeployment, end: Plain) -> int | None:
    if not isinstance(end, str):
        return None
    moment = datetime.datetime.fromisoformat(end)
    return math.floor(moment.timestamp() - rendered.deployment.settings.rendered_s)


def _utc(moment_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(moment_s, tz=datetime.UTC)


def _at(tree: Plain, path: tuple[str, ...]) -> Plain:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _seconds(value: Plain) -> int | None:
    text = str(value.get("seconds", "") if isinstance(value, dict) else value or "")
    match = re.fullmatch(r"(\d+)s?", text)
    return int(match[1]) if match else None
