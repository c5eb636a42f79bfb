"""`gpuyard plan`: the clusters that do the work of a workload file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from gpuyard.app.inference import plan_service
from gpuyard.catalog import Catalog, load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.plan import Plan
from gpuyard.plan.graphics import plan_graphics
from gpuyard.plan.hpc import plan_hpc
from gpuyard.plan.shortlist import Networks
from gpuyard.plan.training import plan_training
from gpuyard.workload import Workload, own_catalogs, read_workload

__all__ = ["one_pool", "plan_file", "plan_workload"]


def plan_file(
    path: Path, layers: Sequence[Path] = (), profile: str = "", networks: Networks | None = None
) -> Plan | Infeasible:
    """The plan for a workload file; InputError with every problem if the file is wrong."""
    catalog = load_catalog((*layers, *own_catalogs(path)))
    return plan_workload(read_workload(path, catalog), catalog, profile, path.parent, networks)


def plan_workload(
    workload: Workload,
    catalog: Catalog,
    profile: str = "",
    folder: Path = Path(),
    networks: Networks | None = None,
) -> Plan | Infeasible:
    """The plan for a workload; `profile` names the software of training, `folder` holds the trace it may name."""
    if workload.where.provider == "local":
        fix = "gpuyard up FILE measures, predicts and runs it; or use provider: google or onprem"
        raise InputError.one("where.provider", "this machine is not chosen but run on", fix)
    catalog = _wired(workload, catalog)
    if workload.task in ("pretraining", "finetuning"):
        return plan_training(workload, catalog, profile, networks)
    if workload.task == "graphics":
        return plan_graphics(workload, catalog)
    if workload.task == "hpc":
        return plan_hpc(workload, catalog)
    return plan_service(workload, catalog, folder)


def one_pool(plan: Plan) -> int | None:
    """The number of the first option that can be deployed: services that read prompts apart are started by hand."""
    numbers = enumerate(plan.options, start=1)
    return next((number for number, option in numbers if option.service is None or not option.service.prefill), None)


def _wired(workload: Workload, catalog: Catalog) -> Catalog:
    """The catalog with own machines on the technology of the switch that the file names: their NICs speak both."""
    name = workload.where.switch
    if name is None:
        return catalog
    technology: Literal["infiniband", "roce"] = (
        "infiniband" if catalog.switch(name).technology == "infiniband" else "roce"
    )
    machines = tuple(
        replace(row, network=replace(row.network, technology=technology))
        if row.provider == "onprem" and row.network.technology in ("infiniband", "roce")
        else row
        for row in catalog.machines
    )
    return replace(catalog, machines=machines)
