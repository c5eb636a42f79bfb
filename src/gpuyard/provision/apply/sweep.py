"""Sweep: find leftover cloud resources by their labels, without a journal, and delete them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError
from gpuyard.provision.apply.api_errors import RESUME
from gpuyard.provision.apply.calls import ApiCall
from gpuyard.provision.apply.destroy import DeletionResult
from gpuyard.provision.apply.google import GoogleClient, pages
from gpuyard.provision.apply.ownership_labels import OwnershipLabels, ownership_labels
from gpuyard.provision.apply.step_client import ApiError
from gpuyard.provision.platforms.requests import api_root
from gpuyard.provision.validate.google import google_methods

# Every list method that can show a resource of ours, in the order of deletion: users of a resource
# before the resource, and what costs most first.
SOURCES = (
    "aiplatform.projects.locations.customJobs.list",
    "aiplatform.projects.locations.endpoints.list",
    "aiplatform.projects.locations.models.list",
    "run.projects.locations.services.list",
    "run.projects.locations.jobs.list",
    "run.projects.locations.workerPools.list",
    "tpu.projects.locations.queuedResources.list",
    "tpu.projects.locations.nodes.list",
    "hypercomputecluster.projects.locations.clusters.list",
    "container.projects.locations.clusters.list",
    "compute.forwardingRules.aggregatedList",
    "compute.regionBackendServices.list",
    "compute.autoscalers.aggregatedList",
    "compute.instanceGroupManagers.aggregatedList",
    "compute.instances.aggregatedList",
    "compute.disks.aggregatedList",
    "compute.reservations.aggregatedList",
    "compute.instanceTemplates.list",
    "compute.healthChecks.list",
    "compute.resourcePolicies.aggregatedList",
    "file.projects.locations.instances.list",
    "compute.addresses.aggregatedList",
    "compute.routers.aggregatedList",
    "compute.firewalls.list",
    "compute.subnetworks.aggregatedList",
    "compute.networks.list",
    "storage.buckets.list",
)
# Their lists do not accept a wildcard for the region.
REGIONAL = ("aiplatform", "run", "compute.region")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A resource with ownership labels."""

    source: Annotated[str, Doc("list method that returned it")]
    resource: str
    name: str
    kind: str
    location: str
    labels: OwnershipLabels
    is_expired: Annotated[bool, Doc("its label expires-at is in the past")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """Leftover resources, and the lists that could not be read."""

    leftovers: tuple[Leftover, ...]
    unread: Annotated[tuple[str, ...], Doc("list methods that failed, with their error")]


def sweep(
    client: GoogleClient, project: str, regions: tuple[str, ...], now_s: float
) -> SweepResult:
    """Find everything in a project that has ownership labels.

    Regional lists are read in the given regions and in those where something else was found.
    """
    leftovers: list[Leftover] = []
    unread: list[str] = []
    for source in sorted(SOURCES, key=lambda name: name.startswith(REGIONAL)):
        used = {re.sub(r"-[a-z]$", "", item.location) for item in leftovers} - {"global"}
        locations = sorted({*regions, *used}) if source.startswith(REGIONAL) else ("-",)
        for location in locations:
            try:
                leftovers += _list(client, source, project, location, now_s)
            except ApiError as error:
                unread.append(f"{source}: {error}")
    return SweepResult(
        leftovers=tuple(sorted(leftovers, key=lambda item: SOURCES.index(item.source))),
        unread=tuple(unread),
    )


def _list(
    client: GoogleClient, source: str, project: str, location: str, now_s: float
) -> tuple[Leftover, ...]:
    api, method = google_methods()[source]
    values = {
        "project": project,
        "projectsId": project,
        "locationsId": location,
        "region": location,
    }
    query = (("project", project),) if api.startswith("storage") else ()
    rows = pages(client, api_root(api, location), method.path.format_map(values), query)
    return tuple(_leftovers(source, rows, method.path.split("/")[0], now_s))


def _leftovers(
    source: str, rows: Iterable[dict[str, Plain]], version: str, now_s: float
) -> Iterator[Leftover]:
    now = datetime.datetime.fromtimestamp(now_s, tz=datetime.UTC).strftime("%Y-%m-%dt%H%Mz")
    for row in rows:
        labels = ownership_labels(row)
        if labels is None:
            continue
        resource = _path(source, row, version)
        location = re.search(r"/(?:zones|regions|locations)/([^/]+)", resource)
        yield Leftover(
            source=source,
            resource=resource,
            name=str(row.get("displayName") or row["name"]).rsplit("/", 1)[-1],
            kind=source.rsplit(".", 2)[1],
            location=location[1] if location else str(row.get("location", "global")).lower(),
            labels=labels,
            is_expired=bool(labels.expires) and labels.expires < now,
        )


def _path(source: str, row: dict[str, Plain], version: str) -> str:
    link = re.search(r"(compute/v1/projects/.*|v1/projects/.*)", str(row.get("selfLink", "")))
    if link:
        return link[1]
    return (
        f"storage/v1/b/{row['name']}"
        if source.startswith("storage")
        else f"{version}/{row['name']}"
    )


def delete_leftovers(
    client: GoogleClient, leftovers: Iterable[Leftover], on_progress: Callable[[str], None]
) -> tuple[DeletionResult, ...]:
    """Delete leftover resources and verify each deletion."""
    results: list[DeletionResult] = []
    for leftover in leftovers:
        result = _delete(client, leftover)
        results.append(result)
        on_progress(f"{result.what}: {result.outcome}")
    return tuple(results)


def _delete(client: GoogleClient, leftover: Leftover) -> DeletionResult:
    call = _call(leftover)
    result = DeletionResult(
        step=leftover.resource, what=f"{leftover.kind} {leftover.name}", outcome="deleted"
    )
    try:
        existing = client.find(call)
        if existing is None:
            return replace(result, outcome="did not exist")
        if existing.labels != leftover.labels:
            return replace(result, outcome="retained", why="its labels have changed")
        client.finish(call, client.start_deletion(call, existing, ""))
        if client.find(call) is None:
            return result
        why = f"{leftover.resource} still exists after deletion"
        return replace(result, outcome="failed", why=why, fix=RESUME)
    except ApiError as error:
        return replace(result, outcome="failed", why=str(error), fix=error.fix)
    except ExternalError as error:
        problem = error.problem
        return replace(result, outcome="failed", why=problem.what, fix=problem.fix)


def _call(leftover: Leftover) -> ApiCall:
    # The call that would have created it, as far as its deletion needs it.
    api, _ = google_methods()[leftover.source]
    return ApiCall(
        step=leftover.resource,
        method=leftover.source,
        api=api,
        http="",
        path=leftover.resource,
        query=(),
        body="",
        root=api_root(api, leftover.location),
        takes_request_id=False,
        identity="named",
        resource=leftover.resource,
        name=leftover.name,
        labels=leftover.labels,
    )
