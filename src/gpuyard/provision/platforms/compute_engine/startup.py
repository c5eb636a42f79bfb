"""Startup script of a machine: Docker, fabric plugin, bucket mounts, ranks, and the container."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric
from gpuyard.provision.launch.job import CAPABILITIES
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.replicas import replicas_per_machine
from gpuyard.provision.launch.server import program_on_port
from gpuyard.provision.platforms.compute_engine.supervision import release_lines, supervisor_lines
from gpuyard.provision.platforms.host import (
    FABRIC_PATHS,
    FOLDER,
    docker_fragment,
    fabric_fragment,
    fragment,
    host_fragment,
    local_ssd_fragment,
    mount_lines,
    token_line,
)

OPS_AGENT = Path(__file__).parent / "data" / "ops_agent.sh"
FRONT_PORT = 80


def startup_script(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, fabric: MachineFabric | None
) -> str:
    """Return the startup script; `fabric` is set for multi-node jobs only."""
    environment = (
        f"PLAN_HASH={settings.hash[:16]} NODE_COUNT={launch.machine_count} "
        "NODE_RANK=0 MASTER_ADDR=localhost"
    )
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on {blueprint.machine.name}: {settings.labels_text}",
        "set -euo pipefail",
        f"export {environment}",
        "export HOME=/root",
        f"mkdir -p {FOLDER}",
        *(release_lines(blueprint, settings) if blueprint.shape != "service" else ()),
        host_fragment(),
        local_ssd_fragment(),
        docker_fragment(),
        *((fabric_fragment(fabric),) if fabric else ()),
        *mount_lines(launch.mounts),
        token_line(settings.requested.secret),
    ]
    if blueprint.shape == "service":
        lines += _server_lines(blueprint, launch)
    else:
        lines += _job_lines(blueprint, settings, launch, fabric)
    return "\n".join(lines) + "\n"


def _docker_run(launch: Launch, fabric: MachineFabric | None, *, gpus: str = "all") -> list[str]:
    arguments = [
        "docker run --entrypoint bash",
        "--network host",
        "--ipc host",
        "--ulimit memlock=-1",
        "--ulimit stack=67108864",
    ]
    if launch.chips_per_machine:
        arguments.append(f"--gpus {shlex.quote(gpus)}")
    paths: list[str] = []
    if fabric is not None:
        arguments.append("--privileged")  # for the devices of the fabric
        paths += FABRIC_PATHS[fabric.technology]
    paths += [mount.path for mount in launch.mounts]
    arguments += [f"--volume {path}:{path}" for path in paths]
    arguments += [
        f"--env {row.name}={row.value}" for row in launch.variables if row.name == CAPABILITIES
    ]
    arguments += [
        f"--volume {FOLDER}:{FOLDER}:ro",
        "--env NODE_RANK --env NODE_COUNT --env MASTER_ADDR --env HF_TOKEN",
    ]
    return arguments


def _job_lines(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, fabric: MachineFabric | None
) -> Iterator[str]:
    """Run the program under the supervisor, which releases the machines at the end."""
    yield f"cat >{FOLDER}/run.sh <<'RUN'"
    yield launch.script(exports=True).rstrip()
    yield "RUN"
    arguments = [
        *_docker_run(launch, fabric),
        "--rm",
        "--name work",
        shlex.quote(launch.image),
        f"{FOLDER}/run.sh",
    ]
    yield from supervisor_lines(blueprint, settings, " ".join(arguments))


def _server_lines(blueprint: Blueprint, launch: Launch) -> Iterator[str]:
    """Run as many replicas as fit on the machine, behind one port."""
    count, port = replicas_per_machine(blueprint), launch.port or 8000
    yield fragment(OPS_AGENT)  # its GPU utilisation is what the autoscaler follows
    chips = int(launch.chips_per_machine)
    for index in range(count):
        devices = ",".join(str(index * chips + chip) for chip in range(chips))
        gpus = "all" if count == 1 else f'"device={devices}"'
        arguments = [
            *_docker_run(launch, None, gpus=gpus),
            f"--detach --restart unless-stopped --name server-{index}",
            shlex.quote(launch.image),
        ]
        script = f"{FOLDER}/run-{index}.sh"
        yield f"cat >{script} <<'RUN'"
        program = program_on_port(launch, index)
        yield dataclasses.replace(launch, program=program).script(exports=True).rstrip()
        yield "RUN"
        yield f"{' '.join(arguments)} {script}"
    servers = " ".join(f"server 127.0.0.1:{port + index};" for index in range(count))
    proxy = "proxy_pass http://replicas; proxy_read_timeout 3600s;"
    yield f"cat >{FOLDER}/nginx.conf <<'CONF'"
    yield f"events {{}}\nhttp {{ upstream replicas {{ least_conn; {servers} }}"
    yield f"  server {{ listen {FRONT_PORT}; location / {{ {proxy}"
    yield "    proxy_buffering off; } } }"
    yield "CONF"
    yield (
        "docker run --detach --restart unless-stopped --name front --network host "
        f"--volume {FOLDER}/nginx.conf:/etc/nginx/nginx.conf:ro nginx:stable-alpine"
    )
