"""Supervision of a job by its own machines: restart, resume, and end without anybody's help."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.job import CHECKPOINTS
from gpuyard.provision.platforms.host import FOLDER, fragment
from gpuyard.provision.restarts import restart_limit
from gpuyard.provision.shell_text import shell
from gpuyard.units import HOUR_S, MINUTE_S

DATA = Path(__file__).parent / "data"
# Waiting machines are billed: an hour bounds what a machine that cannot be replaced costs.
PEER_WAIT_S = HOUR_S
SILENT_S = 10 * MINUTE_S
DONE_WAIT_S = 10 * MINUTE_S
QUICK_S = 10 * MINUTE_S
QUICK_FAILURES = 10
BACKOFF_S = 30
POLL_S = 15
TOPOLOGY = "resourceStatus.physicalHostTopology"
LOCATION = ",".join(f"{TOPOLOGY}.{part}" for part in ("cluster", "block", "subblock", "host"))
GROUPS = "gcloud compute instance-groups managed"


def recreates_machines(blueprint: Blueprint) -> bool:
    """Return whether the group recreates lost machines; flex-start groups cannot."""
    is_group = blueprint.shape in ("multi-node", "service")
    return is_group and blueprint.consumption != "flex-start"


def end_time_s(settings: ResolvedSettings) -> int:
    """Return the end of the TTL in seconds since the epoch, as in the label expires-at."""
    return math.floor(settings.requested.rendered_s) + settings.ttl_s


def has_fixed_end(blueprint: Blueprint, settings: ResolvedSettings) -> bool:
    """Return whether the machines end at a fixed time, which also bounds recreated machines."""
    return recreates_machines(blueprint) and settings.requested.rendered_s > 0


def release_lines(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[str]:
    """Yield the function that deletes the machines, and the trap for hosts that fail to start."""
    zone = shell("--zone={s.zone} --quiet", s=settings)
    name = shell("{s.name}", s=settings)
    if blueprint.shape != "multi-node":
        command = f'gcloud compute instances delete "$(hostname -s)" {zone}'
    elif blueprint.is_independent:
        instance = '--instances="$(hostname -s)"'
        command = f"{GROUPS} delete-instances {name} {instance} {zone}"
    else:
        command = f"{GROUPS} resize {name} --size=0 {zone}"
    yield f"FOLDER={FOLDER}"
    yield f"release_machines() {{ {command}; }}"
    yield fragment(DATA / "setup.sh")


def supervisor_lines(
    blueprint: Blueprint, settings: ResolvedSettings, program: str
) -> Iterator[str]:
    """Yield the supervisor; `program` runs one attempt on this machine."""
    is_group = blueprint.shape == "multi-node"
    zone = shell("--zone={s.zone}", s=settings)
    name = shell("{s.name}", s=settings)
    if is_group:
        # A group of the same name that is created again has another id, and starts afresh.
        describe = f"$({GROUPS} describe {name} {zone} --format='value(id)')"
        yield f'STATE="{CHECKPOINTS}/.gpuyard/"{name}"-{describe}"'
    else:
        yield f"STATE={FOLDER}/state"
    values = {
        "RESTARTS": restart_limit(blueprint, settings),
        "IS_INDEPENDENT": int(blueprint.is_independent or not is_group),
        "PEER_WAIT_S": PEER_WAIT_S,
        "SILENT_S": SILENT_S,
        "DONE_WAIT_S": DONE_WAIT_S,
        "QUICK_S": QUICK_S,
        "QUICK_FAILURES": QUICK_FAILURES,
        "BACKOFF_S": BACKOFF_S,
        "POLL_S": POLL_S,
    }
    yield from (f"{name}={value}" for name, value in values.items())
    if has_fixed_end(blueprint, settings):
        yield f"EXPIRES_S={end_time_s(settings)}"
    else:
        yield f"EXPIRES_S=$(($(date +%s) + {settings.ttl_s}))"
    # Machines sort by their physical location, so neighbours have adjacent ranks.
    columns = f"--format='csv[no-heading]({LOCATION})'"
    describe = f'gcloud compute instances describe "$(hostname -s)" {zone} {columns}'
    yield f"place() {{ {describe} | grep . || echo unknown; }}"
    yield f"run_program() {{ {program}; }}"
    yield fragment(DATA / "supervise.sh")
