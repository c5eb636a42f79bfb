"""The sbatch script of a job: options, TTL, container, and the program on every node."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import read_facts
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.server import calls_srun
from gpuyard.provision.platforms.host import FABRIC_PATHS
from gpuyard.provision.platforms.slurm.nodes import SlurmNodes
from gpuyard.provision.restarts import restart_limit
from gpuyard.provision.shell_text import shell
from gpuyard.units import DAY_S, HOUR_S, MINUTE_S

# A job that fails this often in a row, each time this soon, is not restarted.
QUICK_S = 10 * MINUTE_S
QUICK_FAILURES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchSpec:
    """Contents of an sbatch script."""

    settings: ResolvedSettings
    nodes: SlurmNodes
    launch: Launch
    partition: str = ""
    replicas: Annotated[int, Doc("of a service: one array job per replica")] = 1
    is_mounted: Annotated[
        bool, Doc("buckets are mounted on every node; otherwise the user's folders are used")
    ] = False

    @property
    def by_srun(self) -> bool:
        """Whether the program calls srun itself."""
        return calls_srun(self.launch)


def sbatch_script(spec: SbatchSpec) -> str:
    """Return the text of the script."""
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in _options(spec)),
        f"# {spec.nodes.blueprint.name} on {spec.nodes.blueprint.machine.name}",
        "set -euo pipefail",
        *_ttl_lines(spec.settings.ttl_s),
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)',
        'export MASTER_ADDR NODE_COUNT="$SLURM_JOB_NUM_NODES"',
        *(() if spec.is_mounted else _folders(spec.launch)),
        *_container(spec),
        *(_own_srun(spec) if spec.by_srun else _srun(spec)),
        *_restart_lines(spec),
    ]
    return "\n".join(lines) + "\n"


def _options(spec: SbatchSpec) -> Iterator[str]:
    launch, count = spec.launch, spec.launch.machine_count
    gpus = math.ceil(launch.chips_per_machine)
    yield f"--job-name={spec.settings.name}"
    yield f'--comment="{spec.settings.labels_text}"'
    if spec.partition:
        yield shell("--partition={partition}", partition=spec.partition)
    if spec.replicas > 1:
        yield f"--array=0-{spec.replicas - 1}"
    yield f"--nodes={count}"
    yield f"--ntasks-per-node={gpus if spec.by_srun else 1}"
    if gpus:
        yield f"--gpus-per-node={gpus}"
    yield "--exclusive"
    yield "--mem=0"
    yield f"--time={_duration(spec.settings.ttl_s)}"
    yield "--requeue"
    yield "--open-mode=append"
    yield "--output=%x-%j.out"
    if spec.nodes.switches and count > 1:
        yield f"--switches={spec.nodes.switches}"


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, DAY_S)
    return f"{days}-{rest // HOUR_S:02d}:{rest % HOUR_S // MINUTE_S:02d}:{rest % MINUTE_S:02d}"


def _ttl_lines(ttl_s: int) -> Iterator[str]:
    # Slurm restarts --time at every requeue; the TTL counts from the first start.
    yield 'begun="$PWD/.begun-$SLURM_JOB_ID" quick="$PWD/.quick-$SLURM_JOB_ID"'
    yield '[ -s "$begun" ] || date +%s >"$begun"'
    yield f'left_s=$(({ttl_s} - $(date +%s) + $(cat "$begun")))'
    expired = 'echo "the TTL of this job has expired"; rm -f "$begun"; exit 1'
    yield f'if [ "$left_s" -lt 60 ]; then {expired}; fi'


def _folders(launch: Launch) -> Iterator[str]:
    # On an existing cluster, folders of the user; the environment of sbatch can override both.
    names = {variable.name for variable in launch.variables}
    for name, folder in (("CHECKPOINT_DIR", "checkpoints"), ("DATA_DIR", "data")):
        if name in names:
            yield f'export {name}="${{{name}:-$PWD/{folder}}}"'
            yield f'mkdir -p "${name}"'


def pyxis_image(image: str) -> str:
    """Return a container image in enroot's syntax: # between the registry and the rest."""
    registry, slash, rest = image.partition("/")
    return f"{registry}#{rest}" if slash and ("." in registry or ":" in registry) else image


def _container(spec: SbatchSpec) -> Iterator[str]:
    # Pyxis if the cluster has it; otherwise the program runs on the nodes directly.
    blueprint, launch = spec.nodes.blueprint, spec.launch
    fabric = read_facts().fabric(blueprint.machine.name) if launch.machine_count > 1 else None
    paths = list(FABRIC_PATHS[fabric.technology]) if fabric else []
    if spec.is_mounted:
        paths += [mount.path for mount in launch.mounts]
    mounts = ",".join(['"$PWD:$PWD"', *(f"{path}:{path}" for path in paths)])
    yield "container=()"
    yield 'if [[ "$(srun --help 2>&1)" == *--container-image* ]]; then'
    yield f"  container=(--container-image={shlex.quote(pyxis_image(launch.image))}"
    yield f"    --container-mounts={mounts}"
    yield '    --container-workdir="$PWD")'
    yield "else"
    yield '  echo "this cluster has no Pyxis: the program runs directly on the nodes"'
    yield "fi"


def _srun(spec: SbatchSpec) -> Iterator[str]:
    # One task per node; ranks follow the order of the nodes, which follows the switches.
    launch = spec.launch
    if not spec.is_mounted:
        own = [row for row in launch.variables if row.name not in ("CHECKPOINT_DIR", "DATA_DIR")]
        launch = replace(launch, variables=tuple(own))
    yield "read -r -d '' each <<'NODE' || true"
    yield launch.script('export NODE_RANK="$SLURM_NODEID"', exports=True).rstrip()
    yield "NODE"
    yield "code=0"
    srun = "srun --label --kill-on-bad-exit=1 --mpi=none --cpu-bind=none"
    limit = '--time="$(((left_s + 59) / 60))"'
    yield f'{srun} {limit} "${{container[@]}}" bash -c "$each" || code=$?'


def _own_srun(spec: SbatchSpec) -> Iterator[str]:
    yield "code=0"
    yield "("
    yield spec.launch.script(exports=True).replace("srun ", 'srun "${container[@]}" ').rstrip()
    yield ") || code=$?"


def _restart_lines(spec: SbatchSpec) -> Iterator[str]:
    # Requeue a failed program; it resumes from its last checkpoint. A lost node usually makes the
    # program exit before Slurm notices, so the limit covers the interruptions of the plan.
    limit = restart_limit(spec.nodes.blueprint, spec.settings)
    yield 'if [ "$code" != 0 ]; then'
    yield f'  if [ "$SECONDS" -lt {QUICK_S} ]; then echo >>"$quick"; else rm -f "$quick"; fi'
    yield f'  if [ "${{SLURM_RESTART_COUNT:-0}}" -lt {limit} ] &&'
    yield f'    [ "$(cat "$quick" 2>/dev/null | wc -l)" -lt {QUICK_FAILURES} ]; then'
    yield '    echo "the program exited with code $code: restarting from its last checkpoint"'
    yield '    scontrol requeue "$SLURM_JOB_ID" && exit "$code"'
    yield "  fi"
    yield "fi"
    yield 'rm -f "$begun" "$quick"'
    yield 'exit "$code"'
