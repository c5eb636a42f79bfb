"""Launch of a batch job: training, fine-tuning, rendering or an HPC program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import Framework, ResolvedSettings
from gpuyard.provision.invariants.facts import read_facts
from gpuyard.provision.launch.cloud_nccl import RunsOn, fabric_runtime, nvlink_domain
from gpuyard.provision.launch.container_images import read_images
from gpuyard.provision.launch.frameworks import FRAMEWORKS, LaunchRequest, StartCommand
from gpuyard.provision.launch.launch import BucketMount, EnvVar, Launch
from gpuyard.provision.launch.trainers import trainer_of, trainer_start

CHECKPOINTS = "/mnt/checkpoints"
DATA = "/mnt/data"
DATA_FOLDER = "data"  # of the bucket, for a dataset that is uploaded
TRAINING = ("pretraining", "finetuning")
# The driver libraries that a container gets: most images default to those for compute only
# (docs.nvidia.com/datacenter/cloud-native/container-toolkit: docker-specialized, 2026-11).
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
SHARDING_NOTES = {
    "rendering": "Each machine renders its share of the frames: "
    "the program must select it by NODE_RANK and NODE_COUNT.",
    "video": "Each machine processes its share of the streams: "
    "the program must select it by NODE_RANK and NODE_COUNT.",
}
GRAPHICS_LIBRARIES_NOTE = (
    "OpenGL, Vulkan and OptiX need the driver's graphics libraries: "
    "check for libnvoptix.so.1 on one machine before you start all of them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricEnvironment:
    """Environment variables and scripts that let NCCL use a fabric; empty without one."""

    variables: tuple[EnvVar, ...] = ()
    scripts: tuple[str, ...] = ()
    variables_after_scripts: tuple[EnvVar, ...] = ()
    library_path: str = ""


def framework_of(blueprint: Blueprint, settings: ResolvedSettings) -> Framework:
    """Return the launcher of a program: JAX on TPU, PyTorch on GPUs, a command otherwise."""
    requested = settings.requested.framework
    if requested is not None and requested in FRAMEWORKS:
        return requested
    if blueprint.workload.task not in TRAINING:
        return "command"
    return "jax" if blueprint.is_tpu else "torch"


def image_of(
    name: str, blueprint: Blueprint, settings: ResolvedSettings
) -> tuple[str, tuple[str, ...]]:
    """Return the container image of a framework or engine, and notes about it."""
    if settings.requested.image:
        return settings.requested.image, ()
    row = read_images().image(name)
    fabric = read_facts().fabric(blueprint.machine.name)
    if fabric is not None and fabric.architecture == "arm64" and not row.arm:
        note = (
            f"{blueprint.machine.name} has Arm CPUs: check that {row.image} is built for arm64, "
            "or set --image."
        )
        return row.image, (note,)
    return row.image, ()


def is_local_data(blueprint: Blueprint) -> bool:
    """Return whether the dataset is a folder here and the machines are in a cloud."""
    data = blueprint.workload.data
    location = (data.location if data else None) or ""
    is_cloud = blueprint.machine.provider == "google"
    return bool(location) and "://" not in location and is_cloud


def mounts_of(blueprint: Blueprint, settings: ResolvedSettings) -> tuple[BucketMount, ...]:
    """Return the bucket mounts: checkpoints, and the dataset if it is or will be in a bucket."""
    checkpoints = BucketMount(name="checkpoints", bucket=settings.bucket, path=CHECKPOINTS)
    location = (blueprint.workload.data.location if blueprint.workload.data else None) or ""
    if is_local_data(blueprint):
        bucket, folder = settings.bucket, DATA_FOLDER
    elif location.startswith("gs://"):
        bucket, _, folder = location.removeprefix("gs://").partition("/")
    else:
        return (checkpoints,)
    data = BucketMount(
        name="data", bucket=bucket, folder=folder.strip("/"), path=DATA, is_read_only=True
    )
    return (checkpoints, data)


def fabric_environment(blueprint: Blueprint, runs_on: RunsOn) -> FabricEnvironment:
    """Return the environment of the machine's GPU fabric."""
    fabric = read_facts().fabric(blueprint.machine.name)
    if fabric is None:
        return FabricEnvironment()
    runtime = fabric_runtime(fabric.technology, runs_on)
    lines = list(runtime.variables)
    if fabric.domain_node_count:
        lines += nvlink_domain().variables
    return FabricEnvironment(
        variables=_variables(lines),
        scripts=(runtime.env_script,) if runtime.env_script else (),
        variables_after_scripts=_variables(runtime.variables_after_script),
        library_path=runtime.library_path,
    )


def _variables(lines: Iterable[str]) -> tuple[EnvVar, ...]:
    pairs = (line.partition("=") for line in lines)
    return tuple(EnvVar(name=name, value=value) for name, _, value in pairs)


def job_launch(blueprint: Blueprint, settings: ResolvedSettings, runs_on: RunsOn) -> Launch:
    """Return how a job starts; only multi-node jobs set up the fabric."""
    fabric = FabricEnvironment()
    if blueprint.shape == "multi-node" and not blueprint.is_tpu:
        fabric = fabric_environment(blueprint, runs_on)
    framework, start, own = _start(blueprint, settings)
    image, image_notes = image_of(_image_name(framework, blueprint), blueprint, settings)
    return Launch(
        framework=framework,
        image=image,
        program=start.program,
        variables=(
            *fabric.variables,
            *start.variables,
            *_folders(blueprint),
            *(_layout_variables(blueprint) if own else ()),
            *_graphics_variables(blueprint),
        ),
        env_scripts=fabric.scripts,
        variables_after_scripts=fabric.variables_after_scripts,
        library_path=fabric.library_path,
        mounts=mounts_of(blueprint, settings),
        machine_count=blueprint.machine_count,
        chips_per_machine=int(blueprint.machine.chip_count),
        notes=(*image_notes, *start.notes, *_graphics_notes(blueprint)),
    )


def _start(
    blueprint: Blueprint, settings: ResolvedSettings
) -> tuple[Framework, StartCommand, bool]:
    """Return framework and start command, and whether the program is the user's own."""
    notes: tuple[str, ...] = ()
    trainer = trainer_of(blueprint, settings)
    if trainer is not None:
        start = trainer_start(trainer, blueprint, settings)
        if isinstance(start, StartCommand):
            return trainer, start, False
        notes = (f"{start[0].upper()}{start[1:]}.",)
    framework = framework_of(blueprint, settings)
    program = settings.requested.program
    if not program:
        program = "./run.sh" if framework == "command" else "train.py"
        notes = (*notes, f"{program} is a placeholder: set your program with --program.")
    request = LaunchRequest(
        program=program,
        machine_count=blueprint.machine_count,
        chips_per_machine=int(blueprint.machine.chip_count),
        is_tpu=blueprint.is_tpu,
    )
    start = FRAMEWORKS[framework](request)
    return framework, replace(start, notes=(*notes, *start.notes)), True


def _image_name(framework: Framework, blueprint: Blueprint) -> str:
    if framework == "jax" and blueprint.is_tpu:
        return "jax-tpu"
    if framework == "command" and not blueprint.machine.is_accelerated:
        return "command-cpu"
    return framework


def _graphics_variables(blueprint: Blueprint) -> Iterator[EnvVar]:
    if blueprint.workload.graphics is not None:
        yield EnvVar(name=CAPABILITIES, value="all")


def _graphics_notes(blueprint: Blueprint) -> Iterator[str]:
    graphics = blueprint.workload.graphics
    if graphics is None:
        return
    if blueprint.machine_count > 1:
        yield SHARDING_NOTES[graphics.use]
    if graphics.use == "rendering":
        yield GRAPHICS_LIBRARIES_NOTE


def _folders(blueprint: Blueprint) -> Iterator[EnvVar]:
    yield EnvVar(name="CHECKPOINT_DIR", value=f"{CHECKPOINTS}/{blueprint.name}")
    if blueprint.workload.data and blueprint.workload.data.location:
        location = blueprint.workload.data.location
        is_mounted = location.startswith("gs://") or is_local_data(blueprint)
        yield EnvVar(name="DATA_DIR", value=DATA if is_mounted else location)


def _layout_variables(blueprint: Blueprint) -> Iterator[EnvVar]:
    """The plan's parallelism layout, for a program of the user to read."""
    layout = blueprint.option.arrangement
    if layout is None:
        return
    values = {
        "TENSOR_PARALLEL": layout.tp,
        "PIPELINE_PARALLEL": layout.pp,
        "CONTEXT_PARALLEL": layout.cp,
        "DATA_PARALLEL": layout.dp,
        "EXPERT_PARALLEL": layout.ep,
        "MICRO_BATCH": layout.micro_batch,
        "GRADIENT_ACCUMULATION": layout.gradient_accumulation,
        "VIRTUAL_STAGES": layout.virtual_stages,
        "SHARDING": layout.sharding,
        "RECOMPUTE": layout.recompute,
        "OFFLOAD": layout.offload,
        "PRECISION": blueprint.option.precision,
    }
    yield from (EnvVar(name=f"PLAN_{name}", value=str(value)) for name, value in values.items())
