"""The startup script of a machine: drivers, fabric, buckets, ranks, the container, and the end."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from gpuyard.blueprint import Blueprint
from gpuyard.provision.invariants.facts import Fabric, read_facts
from gpuyard.provision.launch import CAPABILITIES, Launch, replicas_per_machine
from gpuyard.provision.platforms.host import FOLDER, mount_lines, token_line
from gpuyard.provision.settings import Place

__all__ = ["startup_script"]

DATA = Path(__file__).parent / "data"
FRONT_PORT = 80


def startup_script(blueprint: Blueprint, place: Place, launch: Launch, fabric: Fabric | None) -> str:
    """The whole script; `fabric` only where machines work together."""
    together = blueprint.shape == "multi-node"
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on {blueprint.machine.name}: {place.stamp}",
        "set -euo pipefail",
        f"export PLAN_HASH={place.hash[:16]} NODE_COUNT={launch.machine_count} NODE_RANK=0 MASTER_ADDR=localhost",
        "export HOME=/root",
        f"mkdir -p {FOLDER}",
        _part("docker.sh"),
        *(_fabric(fabric) if fabric else ()),
        *mount_lines(launch.mounts),
        *((_part("ranks.sh"),) if together else ()),
        f"cat >{FOLDER}/run.sh <<'RUN'",
        launch.script(exports=True).rstrip(),
        "RUN",
        *(_serve(blueprint, place, launch) if blueprint.shape == "service" else _run(blueprint, place, launch, fabric)),
    ]
    return "\n".join(lines) + "\n"


def _part(name: str) -> str:
    """A part of the script that is the same everywhere."""
    return (DATA / name).read_text(encoding="utf-8").rstrip()


def _fabric(fabric: Fabric) -> Iterator[str]:
    """The fabric's plugin, in the newest release that is known."""
    release = next((row for row in read_facts().releases if row.technology == fabric.technology), None)
    if release is not None:
        yield f"PLUGIN_VERSION={release.plugin} DAEMON_VERSION={release.daemon}"
    yield _part(f"{fabric.technology}.sh")


def _container(launch: Launch, fabric: Fabric | None, *, gpus: str = "all") -> list[str]:
    """The words of `docker run` that every container has."""
    words = [
        "docker run --entrypoint bash",
        "--network host",
        "--ipc host",
        "--ulimit memlock=-1",
        "--ulimit stack=67108864",
    ]
    if launch.chips_per_machine:
        words.append(f"--gpus {shlex.quote(gpus)}")
    if fabric is not None:
        words.append("--privileged")  # the devices of the fabric
        paths = {
            "roce": ("/usr/local/gib",),
            "tcpxo": ("/var/lib/tcpxo", "/dev/aperture_devices"),
            "tcpx": ("/var/lib/tcpx", "/run/tcpx"),
        }
        words += [f"--volume {path}:{path}" for path in paths[fabric.technology]]
    words += [f"--volume {mount.path}:{mount.path}" for mount in launch.mounts]
    words += [f"--env {row.name}={row.value}" for row in launch.variables if row.name == CAPABILITIES]
    words += [f"--volume {FOLDER}:{FOLDER}:ro", "--env NODE_RANK --env NODE_COUNT --env MASTER_ADDR --env HF_TOKEN"]
    return words


def _run(blueprint: Blueprint, place: Place, launch: Launch, fabric: Fabric | None) -> Iterator[str]:
    """Runs the program; when it is done, the machines are given back."""
    words = [*_container(launch, fabric), "--rm", "--name work", shlex.quote(launch.image), f"{FOLDER}/run.sh"]
    yield token_line(place.settings.secret)
    yield "done=0"
    yield f"{' '.join(words)} || done=$?"
    yield 'echo "the program ended with $done"'
    zone = f"--zone={place.zone} --quiet"
    if blueprint.shape == "multi-node" and blueprint.is_independent:
        leave = f"gcloud compute instance-groups managed delete-instances {place.name}"
        yield f'{leave} --instances="$(hostname -s)" {zone} || poweroff'
    elif blueprint.shape == "multi-node":
        yield 'if [ "$NODE_RANK" = 0 ]; then'
        yield f"  gcloud compute instance-groups managed resize {place.name} --size=0 {zone} || true"
        yield "fi"
    else:
        yield f'gcloud compute instances delete "$(hostname -s)" {zone} || poweroff'


def _serve(blueprint: Blueprint, place: Place, launch: Launch) -> Iterator[str]:
    """Runs as many servers as the machine holds, behind one port."""
    count, port = replicas_per_machine(blueprint), launch.port or 8000
    chips = int(launch.chips_per_machine)
    yield token_line(place.settings.secret)
    for index in range(count):
        devices = ",".join(str(index * chips + chip) for chip in range(chips))
        gpus = "all" if count == 1 else f'"device={devices}"'
        words = _container(launch, None, gpus=gpus)
        words += [f"--detach --restart unless-stopped --name server-{index}", shlex.quote(launch.image)]
        moved = f"sed 's/--port {port}/--port {port + index}/' {FOLDER}/run.sh | bash"
        yield f"{' '.join(words)} -c {shlex.quote(moved)}"
    servers = " ".join(f"server 127.0.0.1:{port + index};" for index in range(count))
    yield f"cat >{FOLDER}/nginx.conf <<'CONF'"
    yield f"events {{}}\nhttp {{ upstream replicas {{ least_conn; {servers} }}"
    yield f"  server {{ listen {FRONT_PORT}; location / {{ proxy_pass http://replicas; proxy_read_timeout 3600s;"
    yield "    proxy_buffering off; } } }"
    yield "CONF"
    yield (
        "docker run --detach --restart unless-stopped --name front --network host "
        f"--volume {FOLDER}/nginx.conf:/etc/nginx/nginx.conf:ro nginx:stable-alpine"
    )
