"""Slurm: a batch script for a cluster that exists, in the cloud or in your own hall."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint import Blueprint
from gpuyard.document import Doc
from gpuyard.fabric.render.server.nccl import nccl_environment
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.launch import Launch, Variable, job_launch, needs_slurm, server_launch, serving_of
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, desks_cannot, unsuitable
from gpuyard.provision.platforms.slurm.nodes import Nodes, nodes_of
from gpuyard.provision.platforms.slurm.script import Batch, batch_script
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["FILE", "SLURM", "BatchFile", "batch_artefacts", "google_slurm_cannot", "login_steps", "slurm_cannot"]

FILE = "80-job.sbatch"
SUBMIT = f"sbatch {FILE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFile:
    """The batch script with how it is submitted."""

    file: Artefact
    steps: tuple[Step, ...]
    notes: Annotated[tuple[str, ...], Doc("what has to be known of the script")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """Any Slurm."""

    name: str = "slurm"
    label: str = "Slurm"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """The batch script."""
        why = slurm_cannot(self.name, blueprint, settings)
        if why is not None:
            return why
        made = batch_artefacts(blueprint, settings, partition=settings.partition, is_mounted=False)
        return Artefacts(
            platform=self.name, files=(made.file,), steps=made.steps, notes=(*_own(blueprint), *made.notes)
        )


def slurm_cannot(platform: str, blueprint: Blueprint, settings: Settings) -> Unsuitable | None:
    """What no Slurm does: TPU slices, desks, and services that follow their load."""
    if blueprint.is_tpu:
        gke = ("gke", "its node pools are slices")
        return unsuitable(platform, "a TPU slice is not a set of Slurm nodes", blueprint, gke)
    if blueprint.shape == "desks":
        return desks_cannot(platform, "jobs of Slurm have no display to sit at, and end", blueprint)
    if blueprint.shape != "service":
        return None
    if needs_slurm(server_launch(blueprint, place_of(blueprint, settings), "host")):
        return None
    why = "Slurm runs jobs that end; it neither balances requests nor follows a load"
    if blueprint.machine.provider == "onprem":
        return unsuitable(platform, why, blueprint, ("kubernetes", "a Deployment with an autoscaler does both"))
    return unsuitable(platform, why, blueprint, ("gke", "a Deployment with an autoscaler does both"))


def google_slurm_cannot(platform: str, blueprint: Blueprint, settings: Settings) -> Unsuitable | None:
    """What no Slurm that Google builds does: as any other, and no machines of one's own."""
    machine = blueprint.machine
    if machine.provider != "google":
        return unsuitable(platform, f"{machine.name} stands in your own hall", blueprint, ("slurm", "your own Slurm"))
    return slurm_cannot(platform, blueprint, settings)


def batch_artefacts(
    blueprint: Blueprint, settings: Settings, *, partition: str, is_mounted: bool, whole_buckets: bool = False
) -> BatchFile:
    """The batch script of a blueprint; `is_mounted`: the cluster was made with its buckets as folders.

    `whole_buckets`: a folder of a bucket cannot be mounted by itself.
    """
    place, nodes = place_of(blueprint, settings), nodes_of(blueprint, settings)
    is_service = blueprint.shape == "service"
    launch = (server_launch if is_service else job_launch)(nodes.blueprint, place, "host")
    launch = dataclasses.replace(launch, variables=(*_designed(blueprint), *launch.variables))
    launch = _below(launch) if whole_buckets else launch
    replicas = serving_of(blueprint).replicas if is_service else 1
    batch = Batch(
        place=place, nodes=nodes, launch=launch, partition=partition, replicas=replicas, is_mounted=is_mounted
    )
    return BatchFile(
        file=Artefact(name=FILE, text=batch_script(batch)),
        steps=_steps(place),
        notes=(*_notes(nodes, place, launch, replicas), *launch.notes),
    )


def _below(launch: Launch) -> Launch:
    """The launch with paths below whole buckets."""
    paths = {mount.path: f"{mount.path}/{mount.folder}" for mount in launch.mounts if mount.folder}
    moved = (dataclasses.replace(row, value=paths.get(row.value, row.value)) for row in launch.variables)
    return dataclasses.replace(launch, variables=tuple(moved))


def _designed(blueprint: Blueprint) -> Iterator[Variable]:
    """The NCCL variables of a fabric that was designed; what only the operator knows is left out."""
    if blueprint.fabric is None or blueprint.shape != "multi-node":
        return
    for line in nccl_environment(blueprint.fabric).splitlines():
        name, _, value = line.partition("=")
        if not value.startswith("${"):
            yield Variable(name=name, value=value)


def _steps(place: Place) -> tuple[Step, ...]:
    """How the job is tried, submitted, looked at and ended."""
    return (
        Step(what="ask Slurm whether it would run", command=f"sbatch --test-only {FILE}"),
        Step(what="submit the job", command=SUBMIT, undo=f"scancel --name={place.name}"),
        Step(what="see how it stands", command=f"squeue --name={place.name}"),
    )


def login_steps(place: Place, file: str) -> Iterator[Step]:
    """How the script gets to the login node of a cluster that we made, through Google's tunnel."""
    mine = f"labels.plan-hash={place.hash[:16]} AND name~login"
    find = f"gcloud compute instances list --project={place.project} --filter='{mine}' --format='value(name)' --limit=1"
    where = f"--project={place.project} --zone={place.zone} --tunnel-through-iap"
    yield Step(
        what="copy the batch script to the login node", command=f'gcloud compute scp {file} "$({find})": {where}'
    )
    yield Step(what="log in; the commands below are for there", command=f'gcloud compute ssh "$({find})" {where}')


def _notes(nodes: Nodes, place: Place, launch: Launch, replicas: int) -> Iterator[str]:
    """What has to be known of the script."""
    yield (
        f"--time is the lifetime ({place.ttl_s} s): Slurm ends the job then. The script counts it from the first "
        "start, also over restarts. Under a partition with a shorter MaxTime it would wait for ever: give --ttl."
    )
    if nodes.domain_count and launch.machine_count > 1:
        domain = min(nodes.domain_count, launch.machine_count)
        yield (
            f"{nodes.domain_count} nodes share NVLink. --switches keeps to whole domains under topology/tree; under "
            f"topology/block (Slurm 23.11 or later) submit it as `sbatch --segment={domain} {FILE}`."
        )
    elif nodes.switches is None and launch.machine_count > 1:
        yield (
            "With topology/tree Slurm takes the fewest leaf switches that are free, and ranks follow them; to wait for "
            "a given number, render it with --switches."
        )
    if launch.framework == "tensorrt-llm":
        yield f"{replicas} replicas, one job of the array each: a fixed number, and no balancer before them."


def _own(blueprint: Blueprint) -> Iterator[str]:
    """What has to be known of a cluster that we did not make."""
    if blueprint.machine.provider == "google":
        yield (
            "This is for a Slurm that exists. `--on cluster-director` and `--on cluster-toolkit` write the cluster "
            "too, with the GPU fabric and the buckets."
        )
    if blueprint.fabric is not None:
        yield (
            "NCCL_SOCKET_IFNAME is not set: only you know the interface of the front end. "
            "/etc/nccl/topology.xml comes from nccl-topology.sh of `gpuyard fabric`."
        )
    if blueprint.workload.data and (blueprint.workload.data.location or "").startswith("gs://"):
        where = blueprint.workload.data.location
        yield f"The data is read from $DATA_DIR (default: data beside the script): copy {where} there, or mount it."


SLURM = Slurm()
