"""Vertex AI custom jobs: the primary replica, its workers, and the script they run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.job import fabric_environment
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.tpu_slices import Slices
from gpuyard.provision.platforms.google_machine_types import boot_disk
from gpuyard.provision.platforms.host import fragment
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.platforms.vertex_ai.machine_spec import machine_spec
from gpuyard.provision.shell_text import shell
from gpuyard.units import DAY_S

DATA = Path(__file__).parent / "data"
STRATEGIES = {"spot": "SPOT", "flex-start": "FLEX_START"}
MAX_WAIT_S = DAY_S  # the job fails if it gets no capacity within this time
BOOT_GB = 200


def job_request(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, slices: Slices | None
) -> Request:
    """Return the request that creates the custom job."""
    chips = int(blueprint.machine.chip_count)
    count = blueprint.machine_count
    pool: dict[str, Plain] = {
        "machineSpec": machine_spec(blueprint, settings, slices, chips),
        "replicaCount": "1",
        "containerSpec": _container(blueprint, launch),
    }
    if slices is None:
        pool["diskSpec"] = {"bootDiskType": boot_disk(blueprint.machine), "bootDiskSizeGb": BOOT_GB}
    pools: list[Plain] = [pool]
    if slices is None and count > 1:  # a slice of several hosts is one replica
        pools.append({**pool, "replicaCount": str(count - 1)})
    spec: dict[str, Plain] = {
        "workerPoolSpecs": pools,
        "scheduling": {
            "strategy": STRATEGIES.get(blueprint.consumption or "", "STANDARD"),
            "timeout": f"{settings.ttl_s}s",
            "maxWaitDuration": f"{MAX_WAIT_S}s",
            "restartJobOnWorkerRestart": count > 1,
        },
        "baseOutputDirectory": {"outputUriPrefix": f"gs://{settings.bucket}/{blueprint.name}"},
    }
    if settings.requested.service_account:
        spec["serviceAccount"] = settings.requested.service_account
    return Request(
        file="50-custom-job.json",
        what=f"Create the custom job with {count} machine(s) and a TTL of {settings.ttl_s} s",
        method="aiplatform.projects.locations.customJobs.create",
        parameters={"projectsId": settings.project, "locationsId": settings.region},
        body={"displayName": settings.name, "labels": settings.labels, "jobSpec": spec},
        resource="",
    )


def _container(blueprint: Blueprint, launch: Launch) -> dict[str, Plain]:
    fabric = {variable.name for variable in fabric_environment(blueprint, "pod").variables}
    # Vertex AI does not guarantee the paths in the fabric's variables.
    rows = [row for row in launch.variables if row.name not in fabric]
    return {
        "imageUri": launch.image,
        "command": ["bash", "-c"],
        "args": [job_script(launch)],
        "env": [{"name": row.name, "value": row.value} for row in rows],
    }


def job_script(launch: Launch) -> str:
    """Return the script of a replica: folders, ranks, fabric plugin if present, program."""
    lines = ["set -euo pipefail", *_folders(launch)]
    if launch.machine_count > 1 and "tpu" not in launch.framework:
        lines += [fragment(DATA / "ranks.sh"), fragment(DATA / "fabric.sh")]
    else:
        lines.append("export NODE_RANK=0 NODE_COUNT=1")
    return "\n".join([*lines, launch.program]) + "\n"


def _folders(launch: Launch) -> Iterator[str]:
    if launch.mounts:
        yield "mkdir -p /mnt"
    for mount in launch.mounts:
        source = f"/gcs/{mount.bucket}/{mount.folder}" if mount.folder else f"/gcs/{mount.bucket}"
        yield shell("ln -sfn {source} {target}", source=source, target=mount.path)
