"""The launch of a job that ends: training, fine-tuning, rendering, a computation."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint import Blueprint
from gpuyard.provision.invariants.facts import read_facts
from gpuyard.provision.launch.facts import Spot, plumbing, read_launch_facts
from gpuyard.provision.launch.frameworks import FRAMEWORKS, Ask
from gpuyard.provision.launch.launch import Launch, Mount, Variable
from gpuyard.provision.settings import Framework, Place

__all__ = ["CAPABILITIES", "CHECKPOINTS", "fabric_variables", "framework_of", "image_of", "job_launch", "mounts_of"]

CHECKPOINTS, DATA = "/mnt/checkpoints", "/mnt/data"
TRAINING = ("pretraining", "finetuning")
# Which libraries of the driver a container gets: without it, most have those for computing alone
# (https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html, 2026-11).
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
PIXELS = {
    "rendering": "each machine renders its own share of the frames: the program goes by NODE_RANK and NODE_COUNT",
    "video": "each machine takes its own share of the streams: the program goes by NODE_RANK and NODE_COUNT",
}
LIBRARIES = (
    "OpenGL, Vulkan and OptiX need the driver's graphics libraries: look for libnvoptix.so.1 before you pay for all"
)


def framework_of(blueprint: Blueprint, place: Place) -> Framework:
    """The framework that was asked for; otherwise JAX on TPU, PyTorch on GPUs, and a plain command for the rest."""
    if place.settings.framework is not None:
        return place.settings.framework
    if blueprint.workload.task not in TRAINING:
        return "command"
    return "jax" if blueprint.is_tpu else "torch"


def image_of(name: str, blueprint: Blueprint, place: Place) -> tuple[str, str, tuple[str, ...]]:
    """The container image, where its default was read, and what has to be known of it."""
    if place.settings.image:
        return place.settings.image, "", ()
    facts = read_launch_facts()
    row = facts.image(name)
    fabric = read_facts().fabric(blueprint.machine.name)
    arm = fabric is not None and fabric.architecture == "arm64"
    notes = () if row.arm or not arm else (f"{blueprint.machine.name} is an Arm machine: is {row.image} built for it?",)
    return row.image, facts.told(row.source), notes


def mounts_of(blueprint: Blueprint, place: Place) -> tuple[Mount, ...]:
    """The buckets that the work reads and writes: checkpoints, and the data set where it lies in a bucket."""
    mounts = [Mount(name="checkpoints", bucket=place.bucket, path=CHECKPOINTS)]
    location = (blueprint.workload.data.location if blueprint.workload.data else None) or ""
    if location.startswith("gs://"):
        bucket, _, folder = location.removeprefix("gs://").partition("/")
        mounts.append(Mount(name="data", bucket=bucket, folder=folder.strip("/"), path=DATA, is_read_only=True))
    return tuple(mounts)


def fabric_variables(blueprint: Blueprint, spot: Spot) -> tuple[tuple[Variable, ...], tuple[str, ...]]:
    """The NCCL variables of the machine's fabric and the scripts to source; nothing where it has none of its own."""
    fabric = read_facts().fabric(blueprint.machine.name)
    if fabric is None:
        return (), ()
    row = plumbing(fabric.technology, spot)
    lines = list(row.variables)
    if fabric.domain_node_count:
        lines += next(item.variables for item in read_launch_facts().plumbing if item.name == "nvlink-domain")
    if row.library_path:
        lines.append(f"LD_LIBRARY_PATH={row.library_path}")
    pairs = (line.partition("=") for line in lines)
    return tuple(Variable(name=name, value=value) for name, _, value in pairs), (row.sourced,) if row.sourced else ()


def job_launch(blueprint: Blueprint, place: Place, spot: Spot) -> Launch:
    """How the job is started; on one machine no fabric is set up."""
    framework = framework_of(blueprint, place)
    together = blueprint.shape == "multi-node" and not blueprint.is_tpu
    variables, sourced = fabric_variables(blueprint, spot) if together else ((), ())
    chips = int(blueprint.machine.chip_count)
    program = place.settings.program or ("./run.sh" if framework == "command" else "train.py")
    ask = Ask(program=program, machine_count=blueprint.machine_count, chips_per_machine=chips, is_tpu=blueprint.is_tpu)
    start = FRAMEWORKS[framework](ask)
    tagged = f"{framework}-tpu" if framework == "jax" and blueprint.is_tpu else framework
    tagged = "command-cpu" if framework == "command" and not blueprint.machine.is_accelerated else tagged
    image, source, notes = image_of(tagged, blueprint, place)
    missing = () if place.settings.program else (f"{program} is a placeholder: name your program with --program",)
    return Launch(
        framework=framework,
        image=image,
        image_source=source,
        program=start.program,
        variables=(*variables, *start.variables, *_layout(blueprint), *_capabilities(blueprint)),
        sourced=sourced,
        mounts=mounts_of(blueprint, place),
        machine_count=blueprint.machine_count,
        chips_per_machine=chips,
        notes=(*missing, *notes, *start.notes, *_pixel_notes(blueprint)),
    )


def _capabilities(blueprint: Blueprint) -> Iterator[Variable]:
    """Graphics and video in the container, where the work is pixels."""
    if blueprint.workload.graphics is not None:
        yield Variable(name=CAPABILITIES, value="all")


def _pixel_notes(blueprint: Blueprint) -> Iterator[str]:
    """What a program of pixels has to know."""
    graphics = blueprint.workload.graphics
    if graphics is None:
        return
    if blueprint.machine_count > 1:
        yield PIXELS[graphics.use]
    if graphics.use == "rendering":
        yield LIBRARIES


def _layout(blueprint: Blueprint) -> Iterator[Variable]:
    """The plan's layout and paths, for the program to read."""
    yield Variable(name="CHECKPOINT_DIR", value=f"{CHECKPOINTS}/{blueprint.name}")
    if blueprint.workload.data and blueprint.workload.data.location:
        location = blueprint.workload.data.location
        yield Variable(name="DATA_DIR", value=DATA if location.startswith("gs://") else location)
    spread = blueprint.option.arrangement
    if spread is None:
        return
    values = {
        "TENSOR_PARALLEL": spread.tp, "PIPELINE_PARALLEL": spread.pp, "CONTEXT_PARALLEL": spread.cp,
        "DATA_PARALLEL": spread.dp, "EXPERT_PARALLEL": spread.ep, "MICRO_BATCH": spread.micro_batch,
        "GRADIENT_ACCUMULATION": spread.gradient_accumulation, "VIRTUAL_STAGES": spread.virtual_stages,
        "SHARDING": spread.sharding, "RECOMPUTE": spread.recompute, "OFFLOAD": spread.offload,
        "PRECISION": blueprint.option.precision,
    }  # fmt: skip
    yield from (Variable(name=f"PLAN_{name}", value=str(value)) for name, value in values.items())
