"""A multi-node job as a workload of xpk, for clusters that xpk created.

xpk writes a JobSet itself, with its own network setup, and gives the pods NODE_RANK and NNODES
(AI-Hypercomputer/xpk at 367c838, 2026-06-25: core/docker_resources.py, core/workload_decorators).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.extra_names import XPK_FOLDER
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.platforms.manifests.jobs import RETAIN_S
from gpuyard.provision.platforms.manifests.pods import FUSE_OPTIONS
from gpuyard.provision.restarts import restart_limit
from gpuyard.provision.shell_text import shell

# core/system_characteristics.py at the same commit.
DEVICE_TYPES = {
    "a3-highgpu-8g": "h100-80gb-8",
    "a3-megagpu-8g": "h100-mega-80gb-8",
    "a3-ultragpu-8g": "h200-141gb-8",
    "a4-highgpu-8g": "b200-8",
}
JOB = "slice-job"  # xpk's name of the replicated job
NAME_LENGTH = 39


def xpk_files(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch
) -> tuple[Artefact, ...]:
    """Return the commands, the script of a node and its environment; none if xpk cannot run it."""
    if blueprint.shape != "multi-node" or blueprint.machine.name not in DEVICE_TYPES:
        return ()
    prelude = f'export NODE_COUNT="$NNODES" MASTER_ADDR="$JOBSET_NAME-{JOB}-0-0.$JOBSET_NAME"'
    variables = "".join(f"{row.name}={row.value}\n" for row in launch.variables)
    commands = "\n".join(_commands(blueprint, settings, launch)) + "\n"
    return (
        Artefact(name=f"{XPK_FOLDER}/create.sh", text=commands),
        Artefact(name=f"{XPK_FOLDER}/node.sh", text=launch.script(prelude)),
        # A name without a value takes it from the shell.
        Artefact(name=f"{XPK_FOLDER}/node.env", text=f"{variables}HF_TOKEN\n"),
    )


def _commands(blueprint: Blueprint, settings: ResolvedSettings, launch: Launch) -> Iterator[str]:
    name = settings.short(NAME_LENGTH)
    yield "#!/usr/bin/env bash"
    yield "# The job of 50-job.yaml as a workload of xpk, on the cluster CLUSTER that xpk created."
    yield "set -euo pipefail"
    yield 'cd "$(dirname "$0")"'
    yield "export HF_TOKEN=${HF_TOKEN-}"
    place = shell("--project={s.project} --zone={s.zone}", s=settings)
    yield f'place=({place} --cluster="${{CLUSTER:?name a cluster of xpk}}")'
    storages = []
    for mount in launch.mounts:
        storage = f"{name[: NAME_LENGTH - 12]}-{mount.name}"
        storages.append(shell("--storage={storage}", storage=storage))
        options = FUSE_OPTIONS + (f",only-dir={mount.folder}" if mount.folder else "")
        flags = shell(
            "{storage} --type=gcsfuse --bucket={mount.bucket} --mount-point={mount.path} "
            "--readonly={readonly} --auto-mount=false --mount-options={options}",
            storage=storage,
            mount=mount,
            readonly=str(mount.is_read_only).lower(),
            options=options,
        )
        yield f'xpk storage attach "${{place[@]}}" {flags}'
    # xpk inserts the command into a quoted line of YAML. It sets no deadline: `timeout` ends each
    # attempt at the TTL.
    yield "script=$(base64 -w0 node.sh)"
    flags = shell(
        "--workload={name} --device-type={device} --num-nodes={b.machine_count} "
        "--docker-image={image} --max-restarts={restarts} "
        "--ttl-seconds-after-finished={retain} --env-file=node.env",
        name=name,
        device=DEVICE_TYPES[blueprint.machine.name],
        b=blueprint,
        image=launch.image,
        restarts=restart_limit(blueprint, settings),
        retain=int(RETAIN_S),
    )
    command = f'--command="echo $script | base64 -d | timeout {settings.ttl_s} bash"'
    yield " ".join(['xpk workload create "${place[@]}"', flags, *storages, command])
