"""Slurm: an sbatch script for an existing cluster, in the cloud or on-premises."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.fabric.render.server.fabric_nccl import nccl_environment
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import EnvVar, Launch
from gpuyard.provision.launch.replicas import service_of
from gpuyard.provision.launch.server import calls_srun, launch_of
from gpuyard.provision.platform import (
    Artefacts,
    DeployStep,
    Unsuitable,
    not_google,
    pools_unsupported,
    unsuitable,
    workstations_unsupported,
)
from gpuyard.provision.platforms.slurm.nodes import SlurmNodes, nodes_of
from gpuyard.provision.platforms.slurm.script import SbatchSpec, sbatch_script
from gpuyard.provision.shell_text import shell

FILE = "80-job.sbatch"
SUBMIT = f"sbatch {FILE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFile:
    """The sbatch script, and how to submit it."""

    file: Artefact
    steps: tuple[DeployStep, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """An existing Slurm cluster."""

    name: str = "slurm"
    label: str = "Slurm"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        obstacle = slurm_obstacle(self.name, blueprint, settings)
        if obstacle is not None:
            return obstacle
        batch = batch_file(
            blueprint, settings, partition=settings.requested.partition, is_mounted=False
        )
        return Artefacts(
            platform=self.name,
            files=(batch.file,),
            steps=batch.steps,
            notes=(*_existing_cluster_notes(blueprint), *batch.notes),
        )


def slurm_obstacle(
    platform: str, blueprint: Blueprint, settings: ResolvedSettings
) -> Unsuitable | None:
    """Return why Slurm cannot run it: TPU slices, workstations, autoscaled services."""
    if blueprint.is_tpu:
        gke = ("gke", "its node pools are TPU slices")
        return unsuitable(platform, "a TPU slice is not a set of Slurm nodes", blueprint, gke)
    if blueprint.shape == "workstations":
        return workstations_unsupported(
            platform, "Slurm jobs have no display and a time limit", blueprint
        )
    if blueprint.shape != "service":
        return None
    pools = pools_unsupported(platform, blueprint)
    if pools is not None:
        return pools
    if calls_srun(launch_of(blueprint, settings, "host")):
        return None
    why = "Slurm runs batch jobs; it has no load balancer and no autoscaler"
    name = "gke" if blueprint.machine.provider == "google" else "kubernetes"
    return unsuitable(platform, why, blueprint, (name, "a Deployment with an autoscaler has both"))


def google_slurm_obstacle(
    platform: str, blueprint: Blueprint, settings: ResolvedSettings
) -> Unsuitable | None:
    """Return why a Slurm cluster on Google Cloud cannot run it."""
    elsewhere = not_google(platform, blueprint, ("slurm", "your own Slurm cluster"))
    return elsewhere or slurm_obstacle(platform, blueprint, settings)


def batch_file(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    *,
    partition: str,
    is_mounted: bool,
    whole_buckets: bool = False,
) -> BatchFile:
    """Return the sbatch script of a blueprint.

    `is_mounted`: the cluster mounts the buckets as folders. `whole_buckets`: it cannot mount a
    single folder of a bucket.
    """
    nodes = nodes_of(blueprint, settings)
    launch = launch_of(nodes.blueprint, settings, "host")
    variables = (*_nccl_variables(blueprint), *launch.variables)
    launch = dataclasses.replace(launch, variables=variables)
    if whole_buckets:
        launch = _with_bucket_folders(launch)
    replicas = service_of(blueprint).replicas if blueprint.shape == "service" else 1
    spec = SbatchSpec(
        settings=settings,
        nodes=nodes,
        launch=launch,
        partition=partition,
        replicas=replicas,
        is_mounted=is_mounted,
    )
    return BatchFile(
        file=Artefact(name=FILE, text=sbatch_script(spec)),
        steps=_steps(settings),
        notes=(*_notes(nodes, settings, launch, replicas), *launch.notes),
    )


def _with_bucket_folders(launch: Launch) -> Launch:
    # Point the variables at the folder inside the mounted bucket.
    paths = {mount.path: f"{mount.path}/{mount.folder}" for mount in launch.mounts if mount.folder}
    variables = tuple(
        dataclasses.replace(row, value=paths.get(row.value, row.value)) for row in launch.variables
    )
    return dataclasses.replace(launch, variables=variables)


def _nccl_variables(blueprint: Blueprint) -> Iterator[EnvVar]:
    """The NCCL variables of a designed fabric, without those that only the operator knows."""
    if blueprint.fabric is None or blueprint.shape != "multi-node":
        return
    for line in nccl_environment(blueprint.fabric).splitlines():
        name, _, value = line.partition("=")
        if not value.startswith("${"):
            yield EnvVar(name=name, value=value)


def _steps(settings: ResolvedSettings) -> tuple[DeployStep, ...]:
    return (
        DeployStep(what="Check that Slurm accepts the job", command=f"sbatch --test-only {FILE}"),
        DeployStep(
            what="Submit the job", command=SUBMIT, undo=shell("scancel --name={s.name}", s=settings)
        ),
        DeployStep(
            what="Show the state of the job", command=shell("squeue --name={s.name}", s=settings)
        ),
    )


def login_steps(settings: ResolvedSettings, file: str) -> Iterator[DeployStep]:
    """Yield the steps that copy the script to the login node, through Identity-Aware Proxy."""
    login_node = f"labels.plan-hash={settings.hash[:16]} AND name~login"
    find = (
        shell(
            "gcloud compute instances list --project={s.project} --filter={login_node} ",
            s=settings,
            login_node=login_node,
        )
        + "--format='value(name)' --limit=1"
    )
    where = shell("--project={s.project} --zone={s.zone} --tunnel-through-iap", s=settings)
    yield DeployStep(
        what="Copy the sbatch script to the login node",
        command=f'gcloud compute scp {file} "$({find})": {where}',
    )
    yield DeployStep(
        what="Log in, and run the commands below there",
        command=f'gcloud compute ssh "$({find})" {where}',
    )


def _notes(
    nodes: SlurmNodes, settings: ResolvedSettings, launch: Launch, replicas: int
) -> Iterator[str]:
    yield (
        f"--time is the TTL ({settings.ttl_s} s): Slurm then cancels the job. The script counts it "
        "from the first start, across restarts. In a partition with a shorter MaxTime the job "
        "never starts: set --ttl."
    )
    if nodes.domain_count and launch.machine_count > 1:
        domain = min(nodes.domain_count, launch.machine_count)
        yield (
            f"{nodes.domain_count} nodes form an NVLink domain. With topology/tree, --switches "
            "allocates whole domains; with topology/block (Slurm 23.11 or later) submit it as "
            f"`sbatch --segment={domain} {FILE}`."
        )
    elif nodes.switches is None and launch.machine_count > 1:
        yield (
            "With topology/tree, Slurm uses as few leaf switches as are free, and ranks follow "
            "them; to wait for a given number, render it with --switches."
        )
    if launch.framework == "tensorrt-llm":
        yield (
            f"{replicas} replicas, one array job each: "
            "their number is fixed, and there is no load balancer."
        )


def _existing_cluster_notes(blueprint: Blueprint) -> Iterator[str]:
    if blueprint.machine.provider == "google":
        yield (
            "The script is for an existing Slurm cluster. `--on cluster-director` and "
            "`--on cluster-toolkit` also create the cluster, with GPU fabric and buckets."
        )
    if blueprint.fabric is not None:
        yield (
            "NCCL_SOCKET_IFNAME is not set: set it to the frontend interface of your servers. "
            "/etc/nccl/topology.xml comes from nccl-topology.sh of `gpuyard fabric`."
        )
    if blueprint.workload.data and (blueprint.workload.data.location or "").startswith("gs://"):
        where = blueprint.workload.data.location
        yield (
            "The dataset is read from $DATA_DIR (default: data next to the script): "
            f"copy {where} there, or mount it."
        )


SLURM = Slurm()
