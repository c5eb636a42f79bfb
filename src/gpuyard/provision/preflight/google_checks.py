"""Checks against the project: services, permissions, zone, machine type, images, reservation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.apply.calls import ApiCall, CallStep
from gpuyard.provision.cost_bound import max_machines
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.preflight.check_row import CheckRow, failed, ok, unknown, warning
from gpuyard.provision.preflight.cloud_reader import CloudReader

COMPUTE = "https://compute.googleapis.com/compute/v1"
SERVICES = "https://serviceusage.googleapis.com/v1"
RESOURCES = "https://cloudresourcemanager.googleapis.com/v1"
# Verbs of methods as IAM names them; every other verb is its own permission.
VERBS = {"insert": "create", "deployModel": "deploy"}
# Methods whose permission belongs to another resource
# (https://cloud.google.com/iam/docs/permissions-reference).
PERMISSIONS = {
    "compute.instanceGroupManagerResizeRequests.insert": "compute.instanceGroupManagers.update",
    "container.projects.locations.clusters.nodePools.create": "container.clusters.update",
    "tpu.projects.locations.queuedResources.create": "tpu.nodes.create",
}
IMAGE = re.compile(r"projects/([^/]+)/global/images/(family/)?([^/]+)$")
# Obtainability is a score from 0 to 1 (https://cloud.google.com/compute/docs/reference/rest/v1/
# advice/capacity); below an even chance the request is more likely to wait than to start.
OBTAINABLE = 0.5
Tree = dict[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is about to be applied: the blueprint, its settings, and the calls."""

    blueprint: Blueprint
    settings: ResolvedSettings
    steps: tuple[CallStep, ...]

    @property
    def calls(self) -> tuple[ApiCall, ...]:
        return tuple(step for step in self.steps if isinstance(step, ApiCall))

    @property
    def machine_name(self) -> str:
        return self.blueprint.machine.name

    @property
    def machine_count(self) -> int:
        """The most machines at once."""
        return max_machines(self.blueprint)

    @property
    def project_url(self) -> str:
        return f"{COMPUTE}/projects/{self.settings.project}"

    @property
    def zone_url(self) -> str:
        return f"{self.project_url}/zones/{self.settings.zone}"

    @property
    def region_url(self) -> str:
        return f"{self.project_url}/regions/{self.settings.region}"


def service_rows(target: Target, reader: CloudReader) -> Iterator[CheckRow]:
    """Every API that is called is enabled."""
    project = target.settings.project
    names = sorted({f"{call.api.split('.')[0]}.googleapis.com" for call in target.calls})
    for name in names:
        reply = reader.get(f"{SERVICES}/projects/{project}/services/{name}")
        if reply.error:
            yield reply.as_unknown("service", name)
        elif reply.tree.get("state") == "ENABLED":
            yield ok("service", name, "enabled")
        else:
            fix = f"gcloud services enable {name} --project {project}"
            yield failed("service", name, "not enabled", fix)


def permission_of(method: str) -> str:
    """Return the IAM permission that a method needs."""
    words = method.split(".")
    return PERMISSIONS.get(method) or ".".join(
        (words[0], words[-2], VERBS.get(words[-1], words[-1]))
    )


def permission_rows(target: Target, reader: CloudReader) -> Iterator[CheckRow]:
    """You may create everything that the calls create."""
    project = target.settings.project
    needed = sorted({permission_of(call.method) for call in target.calls})
    if not needed:
        return
    url = f"{RESOURCES}/projects/{project}:testIamPermissions"
    reply = reader.query(url, {"permissions": list(needed)})
    if reply.error:
        yield reply.as_unknown("permissions", project)
        return
    granted = reply.tree.get("permissions")
    missing = [
        name for name in needed if name not in (granted if isinstance(granted, list) else [])
    ]
    if missing:
        fix = f"ask for a role in {project} that has them"
        yield failed("permissions", project, f"missing: {', '.join(missing)}", fix)
    else:
        yield ok("permissions", project, f"{len(needed)} of {len(needed)} granted")


def place_rows(target: Target, reader: CloudReader) -> Iterator[CheckRow]:
    """The zone exists and offers the machine type."""
    zone, name = target.settings.zone, target.machine_name
    reply = reader.get(target.zone_url)
    if reply.is_missing:
        yield failed("zone", zone, "does not exist", "render it again with another --zone")
        return
    if reply.error:
        yield reply.as_unknown("zone", zone)
    elif reply.tree.get("status") != "UP":
        yield warning("zone", zone, f"is {reply.tree.get('status')}", "wait, or use another --zone")
    else:
        yield ok("zone", zone, "up")
    if target.blueprint.is_tpu:
        yield from _tpu_rows(target, reader)
        return
    machine = reader.get(f"{target.zone_url}/machineTypes/{name}")
    if machine.is_missing:
        fix = f"see `gcloud compute machine-types list --filter=name={name}` for its zones"
        yield failed("machine", name, f"not offered in {zone}", fix)
    elif machine.error:
        yield machine.as_unknown("machine", name)
    else:
        yield ok("machine", name, f"offered in {zone}")


def _tpu_rows(target: Target, reader: CloudReader) -> Iterator[CheckRow]:
    zone, place = target.settings.zone, target.settings
    url = f"https://tpu.googleapis.com/v2/projects/{place.project}/locations/{zone}"
    reply = reader.get(f"{url}/acceleratorTypes")
    if reply.is_missing:
        yield failed("machine", target.machine_name, f"no TPU in {zone}", "use another --zone")
    elif reply.error:
        yield reply.as_unknown("machine", target.machine_name)
    else:
        rows = reply.tree.get("acceleratorTypes")
        count = len(rows) if isinstance(rows, list) else 0
        yield ok("machine", target.machine_name, f"{count} TPU types offered in {zone}")


def image_rows(target: Target, reader: CloudReader) -> Iterator[CheckRow]:
    """Every boot image exists and is not deprecated."""
    links = {link for call in target.calls for link in _source_images(json.loads(call.body))}
    for link in sorted(links):
        match = IMAGE.search(link)
        if match is None:
            continue
        project, family, name = match.groups()
        url = f"{COMPUTE}/projects/{project}/global/images/{'family/' if family else ''}{name}"
        reply = reader.get(url)
        state = reply.tree.get("deprecated")
        if reply.is_missing:
            yield failed("image", name, f"does not exist in {project}", "render it with --image")
        elif reply.error:
            yield reply.as_unknown("image", name)
        elif isinstance(state, dict) and state.get("state") in ("OBSOLETE", "DELETED"):
            what = f"is {str(state['state']).lower()}"
            yield failed("image", name, what, "render it again with a newer version of gpuyard")
        else:
            yield ok("image", name, str(reply.tree.get("name") or "exists"))


def _source_images(tree: Plain) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "sourceImage" and isinstance(value, str):
                yield value
            else:
                yield from _source_images(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _source_images(value)


def capacity_rows(target: Target, reader: CloudReader) -> Iterator[CheckRow]:
    """The machines are available: a reservation has room, spot machines are obtainable."""
    consumption = target.blueprint.consumption
    if consumption == "reservation":
        yield from _reservation_rows(target, reader)
    elif consumption == "spot" and not target.blueprint.is_tpu:
        yield from _spot_rows(target, reader)
    else:
        what = f"no API shows the capacity for {consumption}"
        yield unknown("capacity", target.machine_name, what, "apply it, and try other zones")


def _reservation_rows(target: Target, reader: CloudReader) -> Iterator[CheckRow]:
    name = target.settings.requested.reservation.split("/")[0]
    reply = reader.get(f"{target.zone_url}/reservations/{name}")
    if reply.is_missing:
        fix = "render it again with --reservation NAME and its --zone"
        yield failed("capacity", name, f"no reservation in {target.settings.zone}", fix)
        return
    if reply.error:
        yield reply.as_unknown("capacity", name)
        return
    specific = cast(Tree, reply.tree.get("specificReservation") or {})
    machine = cast(Tree, specific.get("instanceProperties") or {}).get("machineType")
    free = _number(specific.get("count")) - _number(specific.get("inUseCount"))
    needed = target.machine_count
    if machine and machine != target.machine_name:
        yield failed("capacity", name, f"reserves {machine}", "use a reservation of the machine")
    elif free < needed:
        what = f"{free:g} machines are free, and {needed} are needed"
        yield failed("capacity", name, what, "wait for them, or plan with fewer machines")
    else:
        yield ok("capacity", name, f"{free:g} machines are free for {needed}")


def _spot_rows(target: Target, reader: CloudReader) -> Iterator[CheckRow]:
    body: Plain = {
        "size": target.machine_count,
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "instanceFlexibilityPolicy": {
            "instanceSelections": {"planned": {"machineTypes": [target.machine_name]}}
        },
        "distributionPolicy": {
            "targetShape": "ANY_SINGLE_ZONE",
            "zones": [{"zone": f"zones/{target.settings.zone}"}],
        },
    }
    reply = reader.query(f"{target.region_url}/advice/capacity", body)
    if reply.error:
        yield reply.as_unknown("capacity", target.machine_name)
        return
    rows = reply.tree.get("recommendations")
    first = cast(Tree, rows[0]) if isinstance(rows, list) and rows else {}
    scores = cast(Tree, first.get("scores") or {})
    if "obtainability" not in scores:
        yield unknown("capacity", target.machine_name, "the service has no advice")
        return
    score = _number(scores["obtainability"])
    uptime = str(scores.get("estimatedUptime") or "")
    what = f"obtainability {score:.2f} of 1" + (f", estimated uptime {uptime}" if uptime else "")
    if score < OBTAINABLE:
        fix = "try other zones, a smaller cluster, or --consumption flex-start"
        yield warning("capacity", target.machine_name, what, fix)
    else:
        yield ok("capacity", target.machine_name, what)


def _number(value: Plain) -> float:
    try:
        return float(str(value))
    except ValueError:
        return 0.0
