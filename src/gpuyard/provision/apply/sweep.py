"""Sweep: what stands by its labels, whatever any journal says, and its removal."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc, Plain
from gpuyard.errors import RefusedError
from gpuyard.provision.apply.calls import Call, root_of
from gpuyard.provision.apply.destroy import Removal
from gpuyard.provision.apply.google import GoogleHand, pages
from gpuyard.provision.apply.hand import FailedError
from gpuyard.provision.apply.stamp import Stamp, stamp_of
from gpuyard.provision.validate.google import google_methods

__all__ = ["SOURCES", "Leftover", "Swept", "remove_leftovers", "sweep"]

# Every list that can hold something of ours, in the order in which it can be removed: what is billed first.
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
REGIONAL = ("aiplatform", "run", "compute.region")  # their lists take no wildcard for the region


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something that stands and carries our labels."""

    source: Annotated[str, Doc("the list that showed it")]
    resource: str
    name: str
    kind: str
    location: str
    stamp: Stamp
    is_expired: Annotated[bool, Doc("its label says that it should be gone")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What was found, and the lists that could not be seen."""

    leftovers: tuple[Leftover, ...]
    unseen: Annotated[tuple[str, ...], Doc("list: why")]


def sweep(hand: GoogleHand, project: str, regions: tuple[str, ...], now_s: float) -> Swept:
    """Everything of a project that carries our labels; lists by region are seen in the named ones and where it is."""
    found: list[Leftover] = []
    unseen: list[str] = []
    for source in sorted(SOURCES, key=lambda name: name.startswith(REGIONAL)):
        known = {re.sub(r"-[a-z]$", "", item.location) for item in found} - {"global"}
        places = sorted({*regions, *known}) if source.startswith(REGIONAL) else ("-",)
        for place in places:
            try:
                found += _seen(hand, source, project, place, now_s)
            except FailedError as failure:
                unseen.append(f"{source}: {failure}")
    return Swept(leftovers=tuple(sorted(found, key=lambda item: SOURCES.index(item.source))), unseen=tuple(unseen))


def _seen(hand: GoogleHand, source: str, project: str, place: str, now_s: float) -> tuple[Leftover, ...]:
    """What one list shows of ours."""
    api, method = google_methods()[source]
    values = {"project": project, "projectsId": project, "locationsId": place, "region": place}
    query = (("project", project),) if api.startswith("storage") else ()
    rows = pages(hand, root_of(api, place), method.path.format_map(values), query)
    return tuple(_leftovers(source, rows, method.path.split("/")[0], now_s))


def _leftovers(source: str, rows: Iterable[dict[str, Plain]], version: str, now_s: float) -> Iterator[Leftover]:
    """The rows that carry our labels."""
    now = datetime.datetime.fromtimestamp(now_s, tz=datetime.UTC).strftime("%Y-%m-%dt%H%Mz")
    for row in rows:
        stamp = stamp_of(row)
        if stamp is None:
            continue
        resource = _path(source, row, version)
        place = re.search(r"/(?:zones|regions|locations)/([^/]+)", resource)
        yield Leftover(
            source=source,
            resource=resource,
            name=str(row.get("displayName") or row["name"]).rsplit("/", 1)[-1],
            kind=source.rsplit(".", 2)[1],
            location=place.group(1) if place else str(row.get("location", "global")).lower(),
            stamp=stamp,
            is_expired=bool(stamp.expires) and stamp.expires < now,
        )


def _path(source: str, row: dict[str, Plain], version: str) -> str:
    """The path of a row's resource."""
    link = re.search(r"(compute/v1/projects/.*|v1/projects/.*)", str(row.get("selfLink", "")))
    if link:
        return link.group(1)
    return f"storage/v1/b/{row['name']}" if source.startswith("storage") else f"{version}/{row['name']}"


def remove_leftovers(
    hand: GoogleHand, leftovers: Iterable[Leftover], tell: Callable[[str], None]
) -> tuple[Removal, ...]:
    """Removes what was found, each seen to be gone."""
    return tuple(_removed(hand, leftover, tell) for leftover in leftovers)


def _removed(hand: GoogleHand, leftover: Leftover, tell: Callable[[str], None]) -> Removal:
    """Removes one."""
    call = _call(leftover)
    what = f"{leftover.kind} {leftover.name}"
    try:
        found = hand.find(call)
        if found is None or found.stamp is None or found.stamp.plan_hash != leftover.stamp.plan_hash:
            return Removal(step=leftover.resource, what=what, end="was not there")
        hand.finish(call, hand.start_removal(call, found, ""))
        end = "failed" if hand.find(call) else "removed"
        tell(f"{what}: {end}")
        return Removal(step=leftover.resource, what=what, end="removed" if end == "removed" else "failed")
    except FailedError as failure:
        return Removal(step=leftover.resource, what=what, end="failed", why=str(failure), fix=failure.fix)
    except RefusedError as error:
        return Removal(step=leftover.resource, what=what, end="failed", why=error.problem.what, fix=error.problem.fix)


def _call(leftover: Leftover) -> Call:
    """The step that would have made it, as far as its removal needs it."""
    api, _ = google_methods()[leftover.source]
    return Call(
        step=leftover.resource, method=leftover.source, api=api, http="", path=leftover.resource, query=(), body="",
        root=root_of(api, leftover.location), takes_request_id=False, identity="named", resource=leftover.resource,
        name=leftover.name, stamp=leftover.stamp,
    )  # fmt: skip
