"""TPU slices: their number and topology for a number of chips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.field_types import Doc
from gpuyard.errors import Infeasible
from gpuyard.provision.launch.replicas import machines_per_replica

# Topologies with two axes (https://docs.cloud.google.com/tpu/docs/v6e and /v5e, 2026-04)
FLAT = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
# Topologies with three axes smaller than a cube. From a cube up, every axis is a multiple of four
# (https://docs.cloud.google.com/tpu/docs/v5p).
SMALL_CUBES = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4"}
CUBE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuGeneration:
    """A TPU generation as the APIs name it."""

    chip: str
    label: Annotated[str, Doc("value of cloud.google.com/gke-tpu-accelerator")]
    axes: int
    pod_chips: Annotated[int, Doc("chips of the largest slice")]
    type: Annotated[str, Doc("in the Cloud TPU API; empty: GKE only")] = ""
    runtime: Annotated[
        str, Doc("TPU VM software version (https://docs.cloud.google.com/tpu/docs/runtimes)")
    ] = ""
    by_policy: Annotated[bool, Doc("GKE reads its topology from a workload policy")] = False


GENERATIONS = (
    TpuGeneration(
        chip="tpu-v5e", label="tpu-v5-lite-podslice", axes=2, pod_chips=256, type="V5LITE_POD",
        runtime="v2-alpha-tpuv5-lite",
    ),
    TpuGeneration(
        chip="tpu-v5p", label="tpu-v5p-slice", axes=3, pod_chips=8960, type="V5P",
        runtime="v2-alpha-tpuv5",
    ),
    TpuGeneration(
        chip="tpu-v6e", label="tpu-v6e-slice", axes=2, pod_chips=256, type="V6E",
        runtime="v2-alpha-tpuv6e",
    ),
    TpuGeneration(chip="tpu-7x", label="tpu7x", axes=3, pod_chips=9216, by_policy=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Slices of one topology: all slices of a job, or one per replica of a service."""

    generation: TpuGeneration
    topology: str
    slice_count: int
    machines_per_slice: int
    chips_per_machine: int


def generation_of(blueprint: Blueprint) -> TpuGeneration | None:
    """Return the generation of the blueprint's chip."""
    return next((row for row in GENERATIONS if row.chip == blueprint.machine.chip), None)


def slices_of(blueprint: Blueprint) -> Slices | Infeasible:
    """Return the fewest slices whose topology exists."""
    generation = generation_of(blueprint)
    machine = blueprint.machine
    if generation is None:
        what = f"{machine.chip} is not a TPU with slices"
        return Infeasible(binding="chip", what=what, fix="choose another option")
    chips = int(machine.chip_count)
    for slice_count, machines in _slice_sizes(blueprint):
        topology = _topology(generation, machines * chips)
        if topology and (machine.multi_host or machines == 1):
            return Slices(
                generation=generation,
                topology=topology,
                slice_count=slice_count,
                machines_per_slice=machines,
                chips_per_machine=chips,
            )
    is_service = blueprint.shape == "service"
    machines = machines_per_replica(blueprint) if is_service else blueprint.machine_count
    what = f"{generation.label} has no topology with {machines * chips} chips"
    fix = "choose an option whose number of chips is a power of two"
    return Infeasible(binding="topology", what=what, fix=fix)


def _slice_sizes(blueprint: Blueprint) -> Iterator[tuple[int, int]]:
    """Candidates of (slices, machines per slice), the fewest slices first."""
    count = blueprint.machine_count
    if blueprint.shape == "service":
        machines = machines_per_replica(blueprint)
        yield max(1, count // machines), machines
        return
    yield from ((slices, count // slices) for slices in range(1, count + 1) if count % slices == 0)


def _topology(generation: TpuGeneration, chips: int) -> str:
    """The topology with a number of chips; empty if there is none."""
    if chips > generation.pod_chips:
        return ""
    if generation.axes == 2:
        return FLAT.get(chips, "")
    if chips < CUBE:
        return SMALL_CUBES.get(chips, "")
    cubes, rest = divmod(chips, CUBE)
    if rest:
        return ""
    sides = [
        (a, b, cubes // (a * b))
        for a in range(1, cubes + 1)
        for b in range(a, cubes + 1)
        if cubes % (a * b) == 0 and cubes // (a * b) >= b
    ]
    best = min(sides, key=lambda side: side[2] - side[0])  # nearest to a cube: shortest paths
    return "x".join(str(4 * side) for side in best)
