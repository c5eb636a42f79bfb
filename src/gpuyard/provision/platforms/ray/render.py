"""Ray: a job for a cluster that runs, with its runtime environment and a driver that starts every machine."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass
from pathlib import Path

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.launch import Launch, job_launch
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, desks_cannot, unsuitable
from gpuyard.provision.platforms.slurm import nodes_of
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["RAY"]

FILE = "20-submit.sh"
DRIVER = Path(__file__).parent / "data" / "driver.py.txt"
DASHBOARD = "http://127.0.0.1:8265"
NOTES = (
    f"RAY_ADDRESS names the dashboard (default {DASHBOARD}).",
    "Each machine is one task that takes all its GPUs; it runs where Ray's worker runs, in no container of its own.",
    "CHECKPOINT_DIR and DATA_DIR have to be folders that every machine sees: they stand in the runtime environment.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """A Ray cluster that exists."""

    name: str = "ray"
    label: str = "Ray"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """The script that submits the job."""
        if blueprint.is_tpu:
            return unsuitable(self.name, "the driver counts GPUs", blueprint, ("gke", "its node pools are slices"))
        desks = desks_cannot(self.name, "tasks of Ray have no display to sit at", blueprint)
        if desks is not None:
            return desks
        if blueprint.shape == "service":
            own = blueprint.machine.provider == "onprem"
            nearest = ("kubernetes" if own else "gke", "a RayService with the same engine, healed and scaled")
            return unsuitable(self.name, "a job of Ray ends; a service needs what restarts it", blueprint, nearest)
        place = place_of(blueprint, settings)
        launch = job_launch(nodes_of(blueprint, settings).blueprint, place, "host")
        submission = f"{place.name}-1"
        return Artefacts(
            platform=self.name,
            files=(Artefact(name=FILE, text=_script(blueprint, place, launch)),),
            steps=(
                Step(
                    what="submit the job from the folder of the program",
                    command=f"bash {FILE} {submission}",
                    undo=f"ray job stop {submission}",
                ),
                Step(what="see how it stands", command=f"ray job status {submission}"),
            ),
            notes=(*NOTES, *launch.notes),
        )


def _script(blueprint: Blueprint, place: Place, launch: Launch) -> str:
    """Writes the driver and the program beside the code, and submits both with it."""
    folder = f"ray-{place.name}"
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on Ray: {place.stamp}",
        "# bash 20-submit.sh [SUBMISSION] [more options of `ray job submit`]",
        "set -euo pipefail",
        f'export RAY_ADDRESS="${{RAY_ADDRESS:-{DASHBOARD}}}"',
        f'submission="${{1:-{place.name}-1}}"',
        f"mkdir -p {folder}",
        f"cat >{folder}/each.sh <<'EACH'",
        launch.script().rstrip(),
        "EACH",
        f"cat >{folder}/driver.py <<'DRIVER'",
        DRIVER.read_text(encoding="utf-8").rstrip(),
        "DRIVER",
        f"runtime={shlex.quote(json.dumps(_runtime(place, launch), indent=2))}",
        'ray job submit --submission-id "$submission" --runtime-env-json "$runtime" "${@:2}" \\',
        f"  -- python {folder}/driver.py",
    ]
    return "\n".join(lines) + "\n"


def _runtime(place: Place, launch: Launch) -> dict[str, Plain]:
    """The runtime environment: the folder it is started from, and the variables of every machine."""
    variables: dict[str, Plain] = {row.name: row.value for row in launch.variables}
    gpus = math.ceil(launch.chips_per_machine)
    variables |= {
        "NODE_COUNT": str(launch.machine_count), "GPUS_PER_NODE": str(gpus), "LIFETIME_S": str(place.ttl_s),
    }  # fmt: skip
    return {"working_dir": ".", "excludes": ["checkpoints", "*.out"], "env_vars": variables}


RAY = Ray()
