"""Machines that are named: they exist, something is left of them, and they can be had and run the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuyard.catalog import Catalog, Machine
from gpuyard.errors import nearest, one_of
from gpuyard.workload.finding import Finding
from gpuyard.workload.offers import allowed_machines, chip_of, may_be_had, may_be_placed, may_run
from gpuyard.workload.where import Where, matches
from gpuyard.workload.workload import Workload

__all__ = [
    "can_be_had",
    "can_run_the_framework",
    "can_train_quantised",
    "is_allowed_and_not_excluded",
    "is_machine_known",
    "is_on_the_platform",
    "is_switch_known",
]


def _named(where: Where, catalog: Catalog) -> Iterator[tuple[str, str, tuple[Machine, ...]]]:
    """Every machine or pattern that is asked for: its path, its text, and the machines that it means."""
    rows = [machine for machine in catalog.machines if machine.provider == where.provider]
    for index, pattern in enumerate(where.machines):
        yield f"where.machines[{index}]", pattern, tuple(row for row in rows if matches(pattern, row.name))
    for stock in where.inventory if where.provider == "onprem" else ():
        found = tuple(row for row in rows if row.name.casefold() == stock.name.casefold())
        yield f"where.inventory.{stock.name}", stock.name, found


def is_machine_known(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """Names and patterns that mean no machine, and machines that are counted twice."""
    where = workload.where
    asked = [*_named(where, catalog)]
    for index, pattern in enumerate(where.exclude):
        found = tuple(row for row in catalog.machines if matches(pattern, row.name))
        asked.append((f"where.exclude[{index}]", pattern, found))
    for path, pattern, found in asked:
        if not found:
            yield Finding(
                path=path,
                what=f'provider {where.provider} has no machine named "{pattern}"',
                fix=_meant(pattern, where, catalog),
            )
    for name, times in Counter(stock.name.casefold() for stock in where.inventory).items():
        if times > 1:
            yield Finding(path="where.inventory", what=f"{name} is counted {times} times", fix="add the counts up")


def _meant(pattern: str, where: Where, catalog: Catalog) -> str:
    """The machine that was meant, or how to describe a new one."""
    here = [row.name for row in catalog.machines if row.provider == where.provider]
    elsewhere = {row.name.casefold(): row.provider for row in catalog.machines if row.provider != where.provider}
    if pattern.casefold() in elsewhere:
        return f"it is a machine of {elsewhere[pattern.casefold()]}; `gpuyard catalog machines` lists the others"
    meant = nearest(pattern, here)
    described = "describe it in a catalog file of your own and name that under where.catalog"
    return f'use "{meant}", or {described}' if meant else f"`gpuyard catalog machines` lists them; or {described}"


def is_allowed_and_not_excluded(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """Machines that are asked for and excluded, or not in the inventory."""
    where = workload.where
    for path, pattern, found in _named(where, catalog):
        if not found or any(where.allows(machine) for machine in found):
            continue
        excluded = [word for word in where.exclude if any(matches(word, machine.name) for machine in found)]
        if excluded:
            yield Finding(
                path=path,
                what=f"{pattern} is asked for here and excluded by {one_of(excluded)}",
                fix="remove it here, or from exclude",
            )
        elif path.startswith("where.machines"):
            yield Finding(
                path=path,
                what=f"{pattern} is not in the inventory",
                fix=f"use {one_of([stock.name for stock in where.inventory])}, or add it to inventory",
            )


def can_be_had(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """Machines that none of the allowed ways can obtain."""
    where = workload.where
    if not where.consumption:
        return
    for path, pattern, found in _named(where, catalog):
        if found and not any(may_be_had(machine, way) for machine in found for way in where.consumption):
            ways = [way for way in ("on-demand", "spot", "flex-start", "reservation") if may_be_had(found[0], way)]
            yield Finding(
                path=path,
                what=f"{pattern} cannot be had by {one_of(where.consumption)}",
                fix=f"add {one_of(ways)} to consumption, or choose another machine"
                if ways
                else "choose another machine",
            )


def is_on_the_platform(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """Machines that the platform does not offer."""
    where = workload.where
    platform = where.platform
    if platform is None or where.provider != "google":
        return
    for path, pattern, found in _named(where, catalog):
        if found and not any(may_be_placed(machine, platform) for machine in found):
            others = [name for name in ("compute-engine", "gke", "slurm") if may_be_placed(found[0], name)]
            yield Finding(
                path=path,
                what=f"{platform} does not offer {pattern}",
                fix=f"use platform: {one_of(others)}, or choose another machine",
            )


def can_run_the_framework(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """Machines whose chips do not run the framework that is insisted on."""
    framework = workload.requirements.framework
    if framework is None:
        return
    refused = False
    for path, pattern, found in _named(workload.where, catalog):
        if found and not any(may_run(machine, framework, catalog) for machine in found):
            refused = True
            chip = chip_of(found[0], catalog)
            assert chip
            yield Finding(
                path=path,
                what=f"{chip.label} in {pattern} does not run {framework}",
                fix=f"use requirements.framework: {one_of(chip.frameworks)}, or choose another machine",
            )
    left = allowed_machines(workload.where, catalog)
    if left and not refused and not any(may_run(machine, framework, catalog) for machine in left):
        yield Finding(
            path="requirements.framework",
            what=f"no machine that is allowed here runs {framework}",
            fix="allow other machines, or remove framework",
        )


def can_train_quantised(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """QLoRA where only TPUs are allowed: its 4-bit kernels are written for GPUs."""
    if workload.training is None or workload.training.method != "qlora":
        return
    left = allowed_machines(workload.where, catalog)
    chips = [chip for machine in left if (chip := chip_of(machine, catalog)) is not None]
    if chips and all(chip.kind == "tpu" for chip in chips):
        yield Finding(
            path="training.method",
            what="the 4-bit kernels of qlora are written for CUDA and ROCm; only TPU machines are allowed here",
            fix="use method: lora, or allow a GPU machine under where.machines",
        )


def is_switch_known(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """A switch that the catalog does not have."""
    name = workload.where.switch
    known = [switch.name for switch in catalog.switches]
    if name is None or name.casefold() in {switch.casefold() for switch in known}:
        return
    meant = nearest(name, known)
    yield Finding(
        path="where.switch",
        what=f'the catalog has no switch named "{name}"',
        fix=f'use "{meant}"' if meant else "`gpuyard catalog switches` lists them",
    )
