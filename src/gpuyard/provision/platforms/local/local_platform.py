"""Local: an environment and a script that run the job or the servers on this machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.errors import EXIT_INFEASIBLE
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch, export_lines
from gpuyard.provision.launch.replicas import machines_per_replica, replicas_per_machine, service_of
from gpuyard.provision.launch.server import launch_of, program_on_port
from gpuyard.provision.platform import (
    Artefacts,
    DeployStep,
    Unsuitable,
    pools_unsupported,
    unsuitable,
    workstations_unsupported,
)
from gpuyard.provision.shell_text import ShellText, shell

ENVIRONMENT, RUN = "10-environment.sh", "20-run.sh"
FOLDERS = {"CHECKPOINT_DIR": "checkpoints", "DATA_DIR": "data", "MODEL_DIR": "models"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """This machine, without a cloud or a cluster."""

    name: str = "local"
    label: str = "this machine"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        workstations = workstations_unsupported(
            self.name, "remote desktops are not set up on this machine", blueprint
        )
        refused = workstations or pools_unsupported(self.name, blueprint)
        if refused is not None:
            return refused
        if blueprint.shape == "multi-node":
            why = f"the plan has {blueprint.machine_count} machines, and this is one"
            return unsuitable(self.name, why, blueprint)
        count = 1
        if blueprint.shape == "service":
            machines = machines_per_replica(blueprint)
            if machines > 1:
                why = f"a replica needs {machines} machines, and this is one"
                return unsuitable(self.name, why, blueprint)
            count = min(service_of(blueprint).replicas, replicas_per_machine(blueprint))
        launch = launch_of(blueprint, settings, "host")
        return Artefacts(
            platform=self.name,
            files=(
                Artefact(name=ENVIRONMENT, text=_environment(blueprint, launch)),
                Artefact(name=RUN, text=_script(blueprint, settings, launch, count)),
            ),
            steps=(
                DeployStep(
                    what=f"Run it; it is terminated after {settings.ttl_s} s", command=f"bash {RUN}"
                ),
            ),
            notes=(*_notes(blueprint, launch, count), *launch.notes),
        )


def _environment(blueprint: Blueprint, launch: Launch) -> str:
    # The caller's environment can override the folders.
    fixed = tuple(row for row in launch.variables if row.name not in FOLDERS)
    lines = [
        "#!/bin/bash",
        f"# Environment of {blueprint.name}; source this file.",
        *export_lines(fixed),
    ]
    for row in launch.variables:
        if row.name in FOLDERS:
            is_mount = row.value.startswith("/mnt/")
            default = (
                ShellText(f'"$PWD/{FOLDERS[row.name]}"') if is_mount else shell("{v}", v=row.value)
            )
            # A default inside "${NAME:-…}" would be expanded; an assignment of one word is not.
            lines.append(f'[ -n "${{{row.name}:-}}" ] || {row.name}={default}')
            lines.append(f"export {row.name}")
    lines.append("export NODE_RANK=0 NODE_COUNT=1 MASTER_ADDR=localhost")
    return "\n".join(lines) + "\n"


def _script(blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, count: int) -> str:
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on this machine: {settings.labels_text}",
        "set -euo pipefail",
        f'source "$(dirname "${{BASH_SOURCE[0]}}")/{ENVIRONMENT}"',
        *_check(blueprint, launch, count),
        '[ -z "${CHECKPOINT_DIR:-}" ] || mkdir -p "$CHECKPOINT_DIR"',
    ]
    for index in range(count):
        script = _on_port(launch, index).script().rstrip()
        lines += [f"read -r -d '' program_{index} <<'RUN' || true", script, "RUN"]
    lines += _run(settings, launch, count)
    return "\n".join(lines) + "\n"


def _check(blueprint: Blueprint, launch: Launch, count: int) -> Iterator[str]:
    # Fail early if this machine has fewer GPUs than the plan needs.
    needed = math.ceil(launch.chips_per_machine) * count
    if not needed or blueprint.chip is None or blueprint.chip.vendor.lower() != "nvidia":
        return
    yield "have=0"
    yield "if command -v nvidia-smi >/dev/null; then have=$(nvidia-smi --list-gpus | wc -l); fi"
    yield f'if [ "$have" -lt {needed} ]; then'
    yield shell(
        '  echo "this machine has $have GPUs;" {b.name} "needs {n}" >&2', b=blueprint, n=needed
    )
    yield f"  exit {EXIT_INFEASIBLE}"
    yield "fi"


def _on_port(launch: Launch, index: int) -> Launch:
    # Each server listens on the next port.
    if launch.port is None or index == 0:
        return launch
    return replace(launch, program=program_on_port(launch, index))


def _run(settings: ResolvedSettings, launch: Launch, count: int) -> Iterator[str]:
    limit = f"timeout --kill-after=60 {settings.ttl_s}"
    if count == 1:
        yield f'exec {limit} bash -c "$program_0"'
        return
    chips = math.ceil(launch.chips_per_machine)
    yield "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
    for index in range(count):
        devices = ",".join(str(index * chips + chip) for chip in range(chips))
        yield f'CUDA_VISIBLE_DEVICES={devices} {limit} bash -c "$program_{index}" &'
    yield "wait -n"  # if one server exits, stop all: a partial service would go unnoticed


def _notes(blueprint: Blueprint, launch: Launch, count: int) -> Iterator[str]:
    yield (
        "It runs without a container, in the current environment: "
        f"{launch.framework} must be installed."
    )
    if launch.port is not None:
        ports = (
            f"port {launch.port}"
            if count == 1
            else f"ports {launch.port} to {launch.port + count - 1}"
        )
        yield f"{count} server(s) on {ports}, without load balancing or autoscaling."
        yield "They listen on all interfaces without authentication: firewall the ports."
    data = blueprint.workload.data
    if data is not None and (data.location or "").startswith("gs://"):
        yield (
            "The dataset is read from $DATA_DIR (default: data in the working directory): "
            f"copy {data.location} there."
        )


LOCAL = Local()
