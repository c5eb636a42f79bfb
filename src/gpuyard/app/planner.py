"""Plan a workload from its text, with its limits and load varied; no other file is read."""

from __future__ import annotations

import getpass
import time
from dataclasses import dataclass, replace
from functools import cache

from gpuyard.app.plan import plan_workload
from gpuyard.app.provision import Provisioned, blueprint_of_option, provision_first_suitable
from gpuyard.app.workspace import Workspace
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.home import Home
from gpuyard.plan.option import Plan
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.workload.read import parse_workload

FILE = "workload.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Factors on the limits and the load of a workload."""

    deadline_ratio: float = 1.0
    budget_ratio: float = 1.0
    load_ratio: float = 1.0  # tokens or samples of a training, requests of a service


@cache
def builtin_catalog() -> Catalog:
    """The catalog of the package, loaded once."""
    return load_catalog()


def workspace_of_text(text: str, home: Home) -> Workspace:
    """Check a workload file given as text; InputError with every problem if it is wrong."""
    workload = parse_workload(text, FILE, builtin_catalog())
    named = bool(workload.where.catalog) or (
        workload.traffic is not None and workload.traffic.trace is not None
    )
    if named:
        fix = f"save the file and run `gpuyard plan {FILE}`"
        raise InputError.one(FILE, "names other files, which are not read here", fix)
    return Workspace(
        workload=workload, catalog=builtin_catalog(), home=home, folder=home.path.parent
    )


def plan_varied(workspace: Workspace, what_if: WhatIf) -> Plan | Infeasible:
    """Plan the workload with its limits and load multiplied."""
    return plan_workload(varied(workspace, what_if))


def varied(workspace: Workspace, what_if: WhatIf) -> Workspace:
    """Multiply the limits and the load of a workload; what is not limited stays so."""
    workload, load = workspace.workload, what_if.load_ratio
    needs, data, traffic = workload.requirements, workload.data, workload.traffic
    needs = replace(
        needs,
        deadline_s=_times(needs.deadline_s, what_if.deadline_ratio),
        budget_usd=_times(needs.budget_usd, what_if.budget_ratio),
        hourly_budget_usd_per_hour=_times(needs.hourly_budget_usd_per_hour, what_if.budget_ratio),
        requests_per_s=_times(needs.requests_per_s, load),
    )
    if data is not None:
        data = replace(
            data,
            tokens=_count_times(data.tokens, load),
            samples_count=_count_times(data.samples_count, load),
        )
    if traffic is not None and traffic.concurrency_count is not None:
        traffic = replace(traffic, concurrency_count=_count_times(traffic.concurrency_count, load))
    changed = replace(workload, requirements=needs, data=data, traffic=traffic)
    return replace(workspace, workload=changed)


def _times(value: float | None, ratio: float) -> float | None:
    return None if value is None else value * ratio


def _count_times(value: int | None, ratio: float) -> int | None:
    return None if value is None else max(1, round(value * ratio))


def deployment_of(workspace: Workspace, plan: Plan, number: int) -> Provisioned | None:
    """Render the deployment of an option on the first platform that suits it; None without one."""
    option = plan.options[number - 1]
    named = workspace.workload.where.platform
    names = [named] if named else [row.platform for row in option.platforms if row.suits]
    settings = DeploymentSettings(owner=getpass.getuser(), rendered_s=float(int(time.time())))
    blueprint = blueprint_of_option(workspace, plan, number)
    return provision_first_suitable(blueprint, names, settings, workspace.catalog)
