"""Checks of named machines: they exist, are not excluded, and are available for the work."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import Problem, choices_text, closest_match
from gpuyard.workload.eligibility import (
    allowed_machines,
    can_be_placed,
    chip_of,
    is_available,
    may_run,
)
from gpuyard.workload.where import ConsumptionName, Where, matches
from gpuyard.workload.workload import Workload


def _named(where: Where, catalog: Catalog) -> Iterator[tuple[str, str, tuple[Machine, ...]]]:
    """Yield the key path, the text and the matching machines of each name or pattern."""
    rows = [machine for machine in catalog.machines if where.includes(machine.provider)]
    for index, pattern in enumerate(where.machines):
        yield (
            f"where.machines[{index}]",
            pattern,
            tuple(row for row in rows if matches(pattern, row.name)),
        )
    for item in where.inventory if where.provider == "onprem" else ():
        machines = tuple(row for row in rows if row.name.casefold() == item.name.casefold())
        yield f"where.inventory.{item.name}", item.name, machines
    for item in where.cluster:
        machines = tuple(row for row in rows if row.name.casefold() == item.name.casefold())
        yield f"where.cluster.{item.name}", item.name, machines


def check_names(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report names and patterns that match no machine, and inventory items given twice."""
    where = workload.where
    named = [*_named(where, catalog)]
    for index, pattern in enumerate(where.exclude):
        machines = tuple(row for row in catalog.machines if matches(pattern, row.name))
        named.append((f"where.exclude[{index}]", pattern, machines))
    for path, pattern, machines in named:
        if not machines:
            yield Problem(
                where=path,
                what=f'provider {where.provider} has no machine named "{pattern}"',
                fix=_suggestion(pattern, where, catalog),
            )
    for name, times in Counter(item.name.casefold() for item in where.inventory).items():
        if times > 1:
            yield Problem(
                where="where.inventory",
                what=f"{name} is listed {times} times",
                fix="add the counts up",
            )


def _suggestion(pattern: str, where: Where, catalog: Catalog) -> str:
    here = [row.name for row in catalog.machines if where.includes(row.provider)]
    elsewhere = {
        row.name.casefold(): row.provider
        for row in catalog.machines
        if not where.includes(row.provider)
    }
    if pattern.casefold() in elsewhere:
        provider = elsewhere[pattern.casefold()]
        return f"it is a machine of {provider}: use provider: {provider}"
    meant = closest_match(pattern, here)
    suggestion = f'use "{meant}"' if meant else "see `gpuyard catalog machines`"
    return f"{suggestion}, or describe it in your own catalog file and add that to where.catalog"


def check_exclusions(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report machines that are requested and excluded, or not in the inventory."""
    where = workload.where
    for path, pattern, machines in _named(where, catalog):
        if not machines or any(where.allows(machine) for machine in machines):
            continue
        excluded = [
            exclusion
            for exclusion in where.exclude
            if any(matches(exclusion, machine.name) for machine in machines)
        ]
        if excluded:
            yield Problem(
                where=path,
                what=f"{pattern} is also excluded, by {choices_text(excluded)}",
                fix="remove it here or from exclude",
            )
        elif path.startswith("where.machines"):
            names = choices_text([item.name for item in where.inventory])
            yield Problem(
                where=path,
                what=f"{pattern} is not in the inventory",
                fix=f"use {names}, or add it to inventory",
            )


def check_consumption(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report machines that are not available with any allowed consumption option."""
    where = workload.where
    if not where.consumption:
        return
    for path, pattern, machines in _named(where, catalog):
        if machines and not any(
            is_available(machine, option) for machine in machines for option in where.consumption
        ):
            available = [
                option
                for option in typing.get_args(ConsumptionName)
                if is_available(machines[0], option)
            ]
            suggestion = f"add {choices_text(available)} to consumption, or " if available else ""
            yield Problem(
                where=path,
                what=f"{pattern} is not available as {choices_text(where.consumption)}",
                fix=f"{suggestion}choose another machine",
            )


def check_platform(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report machines that the platform does not offer."""
    where = workload.where
    platform = where.platform
    if platform is None or where.provider != "google":
        return
    for path, pattern, machines in _named(where, catalog):
        if machines and not any(can_be_placed(machine, platform) for machine in machines):
            others = [
                name
                for name in ("compute-engine", "gke", "slurm")
                if can_be_placed(machines[0], name)
            ]
            yield Problem(
                where=path,
                what=f"{platform} does not offer {pattern}",
                fix=f"use platform: {choices_text(others)}, or choose another machine",
            )


def check_framework(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report machines whose chips do not run the required framework."""
    framework = workload.requirements.framework
    if framework is None:
        return
    reported = False
    for path, pattern, machines in _named(workload.where, catalog):
        if machines and not any(may_run(machine, framework, catalog) for machine in machines):
            reported = True
            chip = chip_of(machines[0], catalog)
            assert chip
            frameworks = choices_text(chip.frameworks)
            yield Problem(
                where=path,
                what=f"{chip.label} in {pattern} does not run {framework}",
                fix=f"use requirements.framework: {frameworks}, or choose another machine",
            )
    allowed = allowed_machines(workload.where, catalog)
    if (
        allowed
        and not reported
        and not any(may_run(machine, framework, catalog) for machine in allowed)
    ):
        yield Problem(
            where="requirements.framework",
            what=f"no allowed machine runs {framework}",
            fix="allow other machines, or remove framework",
        )


def check_qlora(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report QLoRA where only TPUs are allowed: its 4-bit kernels are written for GPUs."""
    if workload.training is None or workload.training.method != "qlora":
        return
    allowed = allowed_machines(workload.where, catalog)
    chips = [chip for machine in allowed if (chip := chip_of(machine, catalog)) is not None]
    if chips and all(chip.kind == "tpu" for chip in chips):
        yield Problem(
            where="training.method",
            what="qlora needs CUDA or ROCm kernels; only TPU machines are allowed",
            fix="use method: lora, or allow a GPU machine under where.machines",
        )


def check_switch(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report a switch that the catalog does not have."""
    name = workload.where.switch
    known = [switch.name for switch in catalog.switches]
    if name is None or name.casefold() in {switch.casefold() for switch in known}:
        return
    meant = closest_match(name, known)
    yield Problem(
        where="where.switch",
        what=f'the catalog has no switch named "{name}"',
        fix=f'use "{meant}"' if meant else "see `gpuyard catalog switches`",
    )
