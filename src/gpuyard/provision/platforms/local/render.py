"""This machine: an environment and a script that runs the job or the server here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.blueprint import Blueprint
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.launch import (
    Launch,
    export_lines,
    job_launch,
    machines_per_replica,
    replicas_per_machine,
    server_launch,
    serving_of,
)
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, desks_cannot, unsuitable
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["LOCAL"]

ENVIRONMENT, RUN = "10-environment.sh", "20-run.sh"
FOLDERS = {"CHECKPOINT_DIR": "checkpoints", "DATA_DIR": "data"}
NONE_FITS = 3  # exit code: this machine is too small


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """No cloud, no cluster."""

    name: str = "local"
    label: str = "this machine"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """The environment and the script."""
        desks = desks_cannot(self.name, "nothing is set up here for people to sit at from elsewhere", blueprint)
        if desks is not None:
            return desks
        if blueprint.shape == "multi-node":
            why = f"the plan has {blueprint.machine_count} machines, and this is one"
            return unsuitable(self.name, why, blueprint)
        is_service = blueprint.shape == "service"
        if is_service and machines_per_replica(blueprint) > 1:
            why = f"a replica takes {machines_per_replica(blueprint)} machines, and this is one"
            return unsuitable(self.name, why, blueprint)
        place = place_of(blueprint, settings)
        launch = (server_launch if is_service else job_launch)(blueprint, place, "host")
        count = min(serving_of(blueprint).replicas, replicas_per_machine(blueprint)) if is_service else 1
        return Artefacts(
            platform=self.name,
            files=(
                Artefact(name=ENVIRONMENT, text=_environment(blueprint, launch)),
                Artefact(name=RUN, text=_script(blueprint, place, launch, count)),
            ),
            steps=(Step(what=f"run it here; it is ended after {place.ttl_s} s", command=f"bash {RUN}"),),
            notes=(*_notes(blueprint, launch, count), *launch.notes),
        )


def _environment(blueprint: Blueprint, launch: Launch) -> str:
    """The variables; folders can be given from outside."""
    fixed = tuple(row for row in launch.variables if row.name not in FOLDERS)
    lines = ["#!/bin/bash", f"# The environment of {blueprint.name}; source it.", *export_lines(fixed)]
    for row in launch.variables:
        if row.name in FOLDERS:
            inside = row.value if not row.value.startswith("/mnt/") else f"$PWD/{FOLDERS[row.name]}"
            lines.append(f'export {row.name}="${{{row.name}:-{inside}}}"')
    lines.append("export NODE_RANK=0 NODE_COUNT=1 MASTER_ADDR=localhost")
    return "\n".join(lines) + "\n"


def _script(blueprint: Blueprint, place: Place, launch: Launch, count: int) -> str:
    """The script: is the machine large enough, then the program until its end or that of its lifetime."""
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on this machine: {place.stamp}",
        "set -euo pipefail",
        f'source "$(dirname "${{BASH_SOURCE[0]}}")/{ENVIRONMENT}"',
        *_check(blueprint, launch, count),
        '[ -z "${CHECKPOINT_DIR:-}" ] || mkdir -p "$CHECKPOINT_DIR"',
    ]
    for index in range(count):
        moved = _moved(launch, index)
        lines += [f"read -r -d '' program_{index} <<'RUN' || true", moved.script().rstrip(), "RUN"]
    lines += _run(place, launch, count)
    return "\n".join(lines) + "\n"


def _check(blueprint: Blueprint, launch: Launch, count: int) -> Iterator[str]:
    """Are there as many GPUs as the plan counts on?"""
    wanted = math.ceil(launch.chips_per_machine) * count
    if not wanted or blueprint.chip is None or blueprint.chip.vendor.lower() != "nvidia":
        return
    yield "have=0"
    yield "if command -v nvidia-smi >/dev/null; then have=$(nvidia-smi --list-gpus | wc -l); fi"
    yield f'if [ "$have" -lt {wanted} ]; then'
    yield f'  echo "this machine has $have GPUs; {blueprint.name} takes {wanted}" >&2'
    yield f"  exit {NONE_FITS}"
    yield "fi"


def _moved(launch: Launch, index: int) -> Launch:
    """The server of that number, on the next port."""
    if launch.port is None or index == 0:
        return launch
    return replace(launch, program=launch.program.replace(f"--port {launch.port}", f"--port {launch.port + index}"))


def _run(place: Place, launch: Launch, count: int) -> Iterator[str]:
    """One program in front, or several servers side by side, each with its GPUs."""
    limit = f"timeout --kill-after=60 {place.ttl_s}"
    if count == 1:
        yield f'exec {limit} bash -c "$program_0"'
        return
    chips = math.ceil(launch.chips_per_machine)
    yield "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
    for index in range(count):
        devices = ",".join(str(index * chips + chip) for chip in range(chips))
        yield f'CUDA_VISIBLE_DEVICES={devices} {limit} bash -c "$program_{index}" &'
    yield "wait -n"  # one server that ends, ends all: nobody would notice half of them


def _notes(blueprint: Blueprint, launch: Launch, count: int) -> Iterator[str]:
    """What has to be known before it runs."""
    yield f"It runs in no container, in the environment that it is started from: {launch.framework} has to be there."
    if launch.port is not None:
        ports = f"port {launch.port}" if count == 1 else f"ports {launch.port} to {launch.port + count - 1}"
        yield f"{count} server(s) on {ports}; nothing balances or scales them."
        yield "They listen on every interface, without a password: close the ports to the outside."
    data = blueprint.workload.data
    if data is not None and (data.location or "").startswith("gs://"):
        yield f"The data is read from $DATA_DIR (default: data where it is started): copy {data.location} there."


LOCAL = Local()
