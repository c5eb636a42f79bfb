"""Vertex AI custom jobs: a primary replica, its workers, and the script that each of them runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.launch import Launch, fabric_variables
from gpuyard.provision.platforms.machines import boot_disk
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.platforms.slices import Slices
from gpuyard.provision.platforms.vertex_ai.machines import machine_spec
from gpuyard.provision.settings import Place

__all__ = ["job_request", "job_script"]

DATA = Path(__file__).parent / "data"
STRATEGIES = {"spot": "SPOT", "flex-start": "FLEX_START"}
WAIT_S = 86_400  # for capacity; after a day without it the job fails
BOOT_GB = 200


def job_request(blueprint: Blueprint, place: Place, launch: Launch, slices: Slices | None) -> Request:
    """The custom job."""
    chips, count = int(blueprint.machine.chip_count), blueprint.machine_count
    pool: dict[str, Plain] = {
        "machineSpec": machine_spec(blueprint, place, slices, chips),
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
            "strategy": STRATEGIES.get(blueprint.way or "", "STANDARD"),
            "timeout": f"{place.ttl_s}s",
            "maxWaitDuration": f"{WAIT_S}s",
            "restartJobOnWorkerRestart": count > 1,
        },
        "baseOutputDirectory": {"outputUriPrefix": f"gs://{place.bucket}/{blueprint.name}"},
    }
    if place.settings.service_account:
        spec["serviceAccount"] = place.settings.service_account
    return Request(
        file="50-custom-job.json",
        what=f"custom job of {count} machine(s), ended by the server after {place.ttl_s} s",
        method="aiplatform.projects.locations.customJobs.create",
        parameters={"projectsId": place.project, "locationsId": place.region},
        body={"displayName": place.name, "labels": place.labels, "jobSpec": spec},
        resource="",
    )


def _container(blueprint: Blueprint, launch: Launch) -> dict[str, Plain]:
    """The container of every replica."""
    fabric = {variable.name for variable in fabric_variables(blueprint, "pod")[0]}
    rows = [row for row in launch.variables if row.name not in fabric]  # whose paths Vertex AI does not promise
    return {
        "imageUri": launch.image,
        "command": ["bash", "-c"],
        "args": [job_script(launch)],
        "env": [{"name": row.name, "value": row.value} for row in rows],
    }


def job_script(launch: Launch) -> str:
    """What a replica runs: folders, ranks, the fabric's plugin where there is one, the program."""
    together = launch.machine_count > 1 and "tpu" not in launch.framework
    lines = [
        "set -euo pipefail",
        *_folders(launch),
        *((_part("ranks.sh"), _part("fabric.sh")) if together else ("export NODE_RANK=0 NODE_COUNT=1",)),
        launch.program,
    ]
    return "\n".join(lines) + "\n"


def _folders(launch: Launch) -> Iterator[str]:
    """Vertex AI shows every bucket under /gcs."""
    if launch.mounts:
        yield "mkdir -p /mnt"
    for mount in launch.mounts:
        yield f"ln -sfn /gcs/{mount.bucket}{'/' + mount.folder if mount.folder else ''} {mount.path}"


def _part(name: str) -> str:
    """A part of the script that is the same everywhere."""
    return (DATA / name).read_text(encoding="utf-8").rstrip()
