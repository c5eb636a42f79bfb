"""Ray: a job for an existing cluster, with its runtime environment and driver."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass
from pathlib import Path

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.job import job_launch
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.platform import (
    Artefacts,
    DeployStep,
    Unsuitable,
    unsuitable,
    workstations_unsupported,
)
from gpuyard.provision.platforms.slurm.nodes import nodes_of

FILE = "20-submit.sh"
DRIVER = Path(__file__).parent / "data" / "driver.py.txt"
DASHBOARD = "http://127.0.0.1:8265"
NOTES = (
    f"RAY_ADDRESS is the URL of the dashboard (default {DASHBOARD}).",
    "Each machine runs one task with all its GPUs, in its Ray worker's environment.",
    "CHECKPOINT_DIR and DATA_DIR must be folders that every machine can access.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """An existing Ray cluster."""

    name: str = "ray"
    label: str = "Ray"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render the script that submits the job."""
        if blueprint.is_tpu:
            gke = ("gke", "its node pools are TPU slices")
            return unsuitable(self.name, "the driver allocates GPUs only", blueprint, gke)
        workstations = workstations_unsupported(self.name, "Ray tasks have no display", blueprint)
        if workstations is not None:
            return workstations
        if blueprint.shape == "service":
            name = "gke" if blueprint.machine.provider == "google" else "kubernetes"
            nearest = (name, "a RayService runs the same engine, with restarts and autoscaling")
            why = "a Ray job is a batch job; nothing restarts a service"
            return unsuitable(self.name, why, blueprint, nearest)
        launch = job_launch(nodes_of(blueprint, settings).blueprint, settings, "host")
        submission = f"{settings.name}-1"
        return Artefacts(
            platform=self.name,
            files=(Artefact(name=FILE, text=_script(blueprint, settings, launch)),),
            steps=(
                DeployStep(
                    what="Submit the job from the folder of the program",
                    command=f"bash {FILE} {submission}",
                    undo=f"ray job stop {submission}",
                ),
                DeployStep(
                    what="Show the state of the job", command=f"ray job status {submission}"
                ),
            ),
            notes=(*NOTES, *launch.notes),
        )


def _script(blueprint: Blueprint, settings: ResolvedSettings, launch: Launch) -> str:
    # Writes driver and program next to the user's code, and submits all of it.
    folder = f"ray-{settings.name}"
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on Ray: {settings.labels_text}",
        "# usage: bash 20-submit.sh [SUBMISSION_ID] [options of `ray job submit`]",
        "set -euo pipefail",
        f'export RAY_ADDRESS="${{RAY_ADDRESS:-{DASHBOARD}}}"',
        f'submission="${{1:-{settings.name}-1}}"',
        f"mkdir -p {folder}",
        f"cat >{folder}/each.sh <<'EACH'",
        launch.script().rstrip(),
        "EACH",
        f"cat >{folder}/driver.py <<'DRIVER'",
        DRIVER.read_text(encoding="utf-8").rstrip(),
        "DRIVER",
        f"runtime={shlex.quote(json.dumps(_runtime(settings, launch), indent=2))}",
        'ray job submit --submission-id "$submission" --runtime-env-json "$runtime" "${@:2}" \\',
        f"  -- python {folder}/driver.py",
    ]
    return "\n".join(lines) + "\n"


def _runtime(settings: ResolvedSettings, launch: Launch) -> dict[str, Plain]:
    # Runtime environment: the working directory, and the variables of every machine.
    variables: dict[str, Plain] = {row.name: row.value for row in launch.variables}
    gpus = math.ceil(launch.chips_per_machine)
    variables |= {
        "NODE_COUNT": str(launch.machine_count),
        "GPUS_PER_NODE": str(gpus),
        "LIFETIME_S": str(settings.ttl_s),
    }
    return {"working_dir": ".", "excludes": ["checkpoints", "*.out"], "env_vars": variables}


RAY = Ray()
