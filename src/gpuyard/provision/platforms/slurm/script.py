"""The batch script of a job: what it asks for, its lifetime, its container, and what runs on every node."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.provision.invariants.facts import read_facts
from gpuyard.provision.launch import Launch, needs_slurm
from gpuyard.provision.platforms.slurm.nodes import Nodes
from gpuyard.provision.settings import Place

__all__ = ["Batch", "batch_script", "pyxis_image"]

FABRIC_PATHS = {
    "roce": ("/usr/local/gib",),
    "tcpxo": ("/var/lib/tcpxo", "/dev/aperture_devices"),
    "tcpx": ("/var/lib/tcpx", "/run/tcpx"),
}
RESTARTS = 3  # after the program failed; a node that is lost or taken back starts the job again as often as it happens
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch script is made of."""

    place: Place
    nodes: Nodes
    launch: Launch
    partition: str = ""
    replicas: Annotated[int, Doc("of a service: one job of an array each")] = 1
    is_mounted: Annotated[bool, Doc("buckets are folders of every node; otherwise the user's folder is used")] = False

    @property
    def by_srun(self) -> bool:
        """The program calls srun itself."""
        return needs_slurm(self.launch)


def batch_script(batch: Batch) -> str:
    """The script as a text."""
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in _options(batch)),
        f"# {batch.nodes.blueprint.name} on {batch.nodes.blueprint.machine.name}",
        "set -euo pipefail",
        *_lifetime(batch.place.ttl_s),
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)',
        'export MASTER_ADDR NODE_COUNT="$SLURM_JOB_NUM_NODES"',
        *(() if batch.is_mounted else _folders(batch.launch)),
        *_container(batch),
        *(_own_srun(batch) if batch.by_srun else _srun(batch)),
        *_ending(),
    ]
    return "\n".join(lines) + "\n"


def _options(batch: Batch) -> Iterator[str]:
    """What the job asks Slurm for."""
    launch, count = batch.launch, batch.launch.machine_count
    gpus = math.ceil(launch.chips_per_machine)
    yield f"--job-name={batch.place.name}"
    yield f'--comment="{batch.place.stamp}"'
    if batch.partition:
        yield f"--partition={batch.partition}"
    if batch.replicas > 1:
        yield f"--array=0-{batch.replicas - 1}"
    yield f"--nodes={count}"
    yield f"--ntasks-per-node={gpus if batch.by_srun else 1}"
    if gpus:
        yield f"--gpus-per-node={gpus}"
    yield "--exclusive"
    yield "--mem=0"
    yield f"--time={_duration(batch.place.ttl_s)}"
    yield "--requeue"
    yield "--open-mode=append"
    yield "--output=%x-%j.out"
    if batch.nodes.switches and count > 1:
        yield f"--switches={batch.nodes.switches}"


def _duration(seconds: int) -> str:
    """D-HH:MM:SS."""
    days, rest = divmod(seconds, DAY_S)
    return f"{days}-{rest // HOUR_S:02d}:{rest % HOUR_S // MINUTE_S:02d}:{rest % MINUTE_S:02d}"


def _lifetime(ttl_s: int) -> Iterator[str]:
    """Slurm counts the time limit anew at every start; the lifetime is counted from the first."""
    yield 'begun="$PWD/.begun-$SLURM_JOB_ID"'
    yield '[ -s "$begun" ] || date +%s >"$begun"'
    yield f'left_s=$(({ttl_s} - $(date +%s) + $(cat "$begun")))'
    yield 'if [ "$left_s" -lt 60 ]; then echo "the lifetime of this job is over"; rm -f "$begun"; exit 1; fi'


def _folders(launch: Launch) -> Iterator[str]:
    """On a cluster that we did not make, folders of the user; both can be given in the environment of sbatch."""
    names = {variable.name for variable in launch.variables}
    for name, folder in (("CHECKPOINT_DIR", "checkpoints"), ("DATA_DIR", "data")):
        if name in names:
            yield f'export {name}="${{{name}:-$PWD/{folder}}}"'
            yield f'mkdir -p "${name}"'


def pyxis_image(image: str) -> str:
    """A container image as enroot names it: # between the registry and the rest."""
    registry, slash, rest = image.partition("/")
    return f"{registry}#{rest}" if slash and ("." in registry or ":" in registry) else image


def _container(batch: Batch) -> Iterator[str]:
    """Pyxis where the cluster has it; otherwise the program runs on the nodes themselves."""
    blueprint, launch = batch.nodes.blueprint, batch.launch
    fabric = read_facts().fabric(blueprint.machine.name) if launch.machine_count > 1 else None
    paths = [*(FABRIC_PATHS[fabric.technology] if fabric else ()), *(mount.path for mount in launch.mounts)]
    mounts = ",".join(f"{path}:{path}" for path in paths if batch.is_mounted or path not in _buckets(launch))
    own = '"$PWD:$PWD"'
    yield "container=()"
    yield 'if [[ "$(srun --help 2>&1)" == *--container-image* ]]; then'
    yield f"  container=(--container-image={shlex.quote(pyxis_image(launch.image))}"
    yield f"    --container-mounts={own}{',' + mounts if mounts else ''}"
    yield '    --container-workdir="$PWD")'
    yield "else"
    yield '  echo "no Pyxis on this cluster: the program runs on the nodes themselves"'
    yield "fi"


def _buckets(launch: Launch) -> tuple[str, ...]:
    """The folders of buckets."""
    return tuple(mount.path for mount in launch.mounts)


def _srun(batch: Batch) -> Iterator[str]:
    """One task a node; ranks follow the order of the nodes, which follows the switches."""
    launch = batch.launch
    if not batch.is_mounted:
        own = [row for row in launch.variables if row.name not in ("CHECKPOINT_DIR", "DATA_DIR")]
        launch = replace(launch, variables=tuple(own))
    yield "read -r -d '' each <<'NODE' || true"
    yield launch.script('export NODE_RANK="$SLURM_NODEID"', exports=True).rstrip()
    yield "NODE"
    yield "code=0"
    words = ["srun --label --kill-on-bad-exit=1 --mpi=none --cpu-bind=none", '--time="$(((left_s + 59) / 60))"']
    yield f'{" ".join(words)} "${{container[@]}}" bash -c "$each" || code=$?'


def _own_srun(batch: Batch) -> Iterator[str]:
    """A program that calls srun itself, a task for each GPU."""
    yield "code=0"
    yield "("
    yield batch.launch.script(exports=True).replace("srun ", 'srun "${container[@]}" ').rstrip()
    yield ") || code=$?"


def _ending() -> Iterator[str]:
    """A program that failed is started again from its last checkpoint, a few times."""
    yield 'if [ "$code" != 0 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt ' + f"{RESTARTS} ]; then"
    yield '  echo "the program ended with $code: it starts again from its last checkpoint"'
    yield '  scontrol requeue "$SLURM_JOB_ID" && exit "$code"'
    yield "fi"
    yield 'rm -f "$begun"'
    yield 'exit "$code"'
