"""TPU slices: how many, and the topology of each, for a number of chips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint import Blueprint
from gpuyard.document import Doc
from gpuyard.errors import Infeasible
from gpuyard.provision.launch import machines_per_replica

__all__ = ["GENERATIONS", "Generation", "Slices", "generation_of", "slices_of"]

# Topologies with two axes (https://docs.cloud.google.com/tpu/docs/v6e and /v5e, 2026-04)
FLAT = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
# With three axes below a cube; above, every axis is a multiple of four (https://docs.cloud.google.com/tpu/docs/v5p)
SMALL_CUBES = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4"}
CUBE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A TPU generation as the APIs name it."""

    chip: str
    label: Annotated[str, Doc("value of cloud.google.com/gke-tpu-accelerator")]
    axes: int
    pod_chips: Annotated[int, Doc("the largest slice")]
    type: Annotated[str, Doc("in the Cloud TPU API; empty: it is not there")] = ""
    runtime: Annotated[str, Doc("software of a TPU VM (https://docs.cloud.google.com/tpu/docs/runtimes)")] = ""
    by_policy: Annotated[bool, Doc("GKE takes its topology from a workload policy")] = False


GENERATIONS = (
    Generation(
        chip="tpu-v5e", label="tpu-v5-lite-podslice", axes=2, pod_chips=256, type="V5LITE_POD",
        runtime="v2-alpha-tpuv5-lite",
    ),
    Generation(chip="tpu-v5p", label="tpu-v5p-slice", axes=3, pod_chips=8960, type="V5P", runtime="v2-alpha-tpuv5"),
    Generation(chip="tpu-v6e", label="tpu-v6e-slice", axes=2, pod_chips=256, type="V6E", runtime="v2-alpha-tpuv6e"),
    Generation(chip="tpu-7x", label="tpu7x", axes=3, pod_chips=9216, by_policy=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Slices of one topology: of a job all that work together, of a service one for each replica."""

    generation: Generation
    topology: str
    slice_count: int
    machines_per_slice: int
    chips_per_machine: int


def generation_of(blueprint: Blueprint) -> Generation | None:
    """The generation of the blueprint's chip."""
    return next((row for row in GENERATIONS if row.chip == blueprint.machine.chip), None)


def slices_of(blueprint: Blueprint) -> Slices | Infeasible:
    """The slices of a blueprint: the fewest whose topology exists."""
    row = generation_of(blueprint)
    machine = blueprint.machine
    if row is None:
        return Infeasible(
            binding="chip", what=f"{machine.chip} is no TPU that can be sliced", fix="choose another option"
        )
    chips = int(machine.chip_count)
    if blueprint.shape == "service":
        hosts = machines_per_replica(blueprint)
        groups = [max(1, blueprint.machine_count // hosts)]
    else:
        hosts = blueprint.machine_count
        groups = [count for count in range(1, hosts + 1) if hosts % count == 0]
    for count in groups:
        machines = hosts if blueprint.shape == "service" else hosts // count
        topology = _topology(row, machines * chips)
        alone = machine.multi_host or machines == 1
        if topology and alone:
            return Slices(
                generation=row, topology=topology, slice_count=count, machines_per_slice=machines,
                chips_per_machine=chips,
            )  # fmt: skip
    what = f"no topology of {row.label} has {hosts * chips} chips"
    return Infeasible(binding="topology", what=what, fix="choose an option with a power of two of chips")


def _topology(row: Generation, chips: int) -> str:
    """The topology of that many chips; empty where there is none."""
    if chips > row.pod_chips:
        return ""
    if row.axes == 2:
        return FLAT.get(chips, "")
    if chips < CUBE:
        return SMALL_CUBES.get(chips, "")
    blocks = chips // CUBE
    if chips % CUBE:
        return ""
    sides = [
        (a, b, blocks // (a * b))
        for a in range(1, blocks + 1)
        for b in range(a, blocks + 1)
        if blocks % (a * b) == 0 and blocks // (a * b) >= b
    ]
    best = min(sides, key=lambda side: side[2] - side[0])  # the nearest to a cube has the shortest ways
    return "x".join(str(4 * side) for side in best)
