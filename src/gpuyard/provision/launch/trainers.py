"""Training frameworks that run the plan by themselves, without a program of the user."""

from __future__ import annotations

from collections.abc import Callable

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.errors import Infeasible, InputError
from gpuyard.plan.training_software import read_training_software
from gpuyard.provision.deployment_settings import Framework, ResolvedSettings
from gpuyard.provision.launch.axolotl import axolotl
from gpuyard.provision.launch.frameworks import StartCommand
from gpuyard.provision.launch.maxtext import maxtext
from gpuyard.provision.launch.megatron_bridge import megatron_bridge
from gpuyard.provision.launch.torchtitan import torchtitan
from gpuyard.provision.launch.tpu_slices import slices_of
from gpuyard.provision.launch.training_run import TrainingRun, training_run

# The second argument is the user's own, appended to the framework's. A text says why it cannot.
TRAINERS: dict[Framework, Callable[[TrainingRun, str], StartCommand | str]] = {
    "megatron-bridge": megatron_bridge,
    "axolotl": axolotl,
    "maxtext": maxtext,
    "torchtitan": torchtitan,
}
# The software that the plan's times are for, and the trainer that drives it.
PLANNED: dict[str, Framework] = {
    "megatron-bridge": "megatron-bridge",
    "peft": "axolotl",
    "maxtext": "maxtext",
    "torchtitan": "torchtitan",
}


def trainer_of(blueprint: Blueprint, settings: ResolvedSettings) -> Framework | None:
    """Return the framework that trains the plan; None for a program of the user."""
    requested = settings.requested
    if requested.framework in TRAINERS:
        return requested.framework
    if requested.program or requested.framework is not None:
        return None
    labels = {item.label: item.name for item in read_training_software()}
    return PLANNED.get(labels.get(blueprint.option.software, ""))


def trainer_start(
    framework: Framework, blueprint: Blueprint, settings: ResolvedSettings
) -> StartCommand | str:
    """Return how the framework starts the planned run, or why it cannot.

    Raises:
        InputError: the user chose the framework, and it cannot run this plan.
    """
    slices = slices_of(blueprint) if blueprint.is_tpu else None
    if isinstance(slices, Infeasible):
        return slices.what
    run = training_run(blueprint, slices.slice_count if slices else 1)
    if run is None:
        start: StartCommand | str = "the plan has no model with a parallelism layout"
    else:
        start = TRAINERS[framework](run, settings.requested.framework_args)
    if isinstance(start, str) and settings.requested.framework == framework:
        raise InputError.one(
            "--framework", f"{framework} cannot run this plan: {start}", "set --program instead"
        )
    return start
