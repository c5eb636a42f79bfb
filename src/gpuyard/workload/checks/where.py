"""Where it may run: provider, place, platform and engine must agree with each other and with the task."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator

from gpuyard.catalog import Catalog
from gpuyard.errors import one_of
from gpuyard.workload.finding import Finding
from gpuyard.workload.keys import entries
from gpuyard.workload.where import EngineName, PlatformChoice, region_of
from gpuyard.workload.workload import Workload

__all__ = [
    "CLOUD_PLATFORMS",
    "ENGINES",
    "OWN_PLATFORMS",
    "has_something_to_run",
    "is_engine_of_the_platform",
    "is_of_the_provider",
    "is_place_named",
    "is_platform_for_the_task",
    "is_zone_in_region",
]

_CLOUD_ONLY = ("region", "zone", "consumption")
_OWN_ONLY = ("inventory", "switch")
_CHOICES = ("platform", "machines", "exclude", "max_chips")
CLOUD_PLATFORMS: tuple[PlatformChoice, ...] = ("compute-engine", "gke", "slurm", "vertex-ai", "cloud-run")
OWN_PLATFORMS: tuple[PlatformChoice, ...] = ("slurm", "kubernetes")
ENGINES: dict[PlatformChoice, tuple[EngineName, ...]] = {
    "compute-engine": ("local", "ray"),
    "gke": ("kubernetes", "ray"),
    "kubernetes": ("kubernetes", "ray"),
    "slurm": ("slurm", "ray"),
    "vertex-ai": ("ray", "slurm"),  # Ray on Vertex AI, and training clusters, which are managed Slurm
    "cloud-run": (),
}


def is_of_the_provider(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """Keys of a cloud on machines of one's own, and the other way round."""
    where = workload.where
    own = where.provider != "google"
    foreign = {"google": _OWN_ONLY, "onprem": _CLOUD_ONLY, "local": (*_CLOUD_ONLY, *_OWN_ONLY, *_CHOICES)}
    for entry in entries(workload):
        section, _, word = entry.path.partition(".")
        if section != "where" or not entry.given or word not in foreign[where.provider]:
            continue
        users = {"google": "machines of your own", "onprem": "Google Cloud", "local": "a choice between machines"}
        other = {"google": "onprem", "onprem": "google", "local": "onprem" if word in _OWN_ONLY else "google"}
        yield Finding(
            path=entry.path,
            what=f"{word} is for {users[where.provider]}; provider is {where.provider}",
            fix=f"remove {word}, or use provider: {other[where.provider]}",
        )
    if where.provider == "onprem" and not where.inventory:
        yield Finding(
            path="where",
            what="nothing says which machines of your own there are",
            fix="add inventory: {<machine>: <count>}, such as {dgx-h100: 16}",
        )
    platforms = OWN_PLATFORMS if own else CLOUD_PLATFORMS
    if where.provider != "local" and where.platform is not None and where.platform not in platforms:
        meant = {"gke": "kubernetes", "kubernetes": "gke"}.get(where.platform)
        yield Finding(
            path="where.platform",
            what=f"{where.platform} is not a platform of provider {where.provider}",
            fix=f"use {meant or one_of(platforms)}",
        )


def has_something_to_run(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """This machine is not planned for but run on, so there have to be stages."""
    if workload.where.provider == "local" and workload.pipeline is None:
        yield Finding(
            path="where.provider",
            what="nothing is said of what to run on this machine",
            fix="add pipeline: with data, train, evaluate, select or deploy, or use provider: google",
        )


def is_place_named(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """A zone or region that is not written like one, or that there is none of; one without known prices is let pass."""
    where = workload.where
    if where.provider != "google":
        return
    if where.zone is not None and region_of(where.zone) is None:
        yield Finding(
            path="where.zone",
            what=f'"{where.zone}" is not a zone',
            fix="write a region with its letter, such as us-central1-a",
        )
    if where.region is None:
        return
    listed = {row.name for row in catalog.regions if row.provider == "google"}
    known = sorted(listed | {row.region for row in catalog.prices if row.provider == "google"})
    in_zone = where.zone is not None and region_of(where.zone) == where.region
    close = difflib.get_close_matches(where.region, known, n=3, cutoff=0.8)
    if region_of(f"{where.region}-a") is None:
        what, fix = "is not a region", "write it like us-central1"
    elif where.region in known:
        return
    else:
        what = "is not among the regions of Google Cloud that the catalog knows"
        fix = (
            f"{f'use {one_of(close)}, or ' if close else ''}add [regions.{where.region}] to a catalog file of your own"
        )
    yield Finding(path="where.zone" if in_zone else "where.region", what=f'"{where.region}" {what}', fix=fix)


def is_zone_in_region(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """A zone of another region."""
    where = workload.where
    region = region_of(where.zone or "")
    if region is not None and where.region is not None and region != where.region:
        yield Finding(
            path="where.zone",
            what=f"{where.zone} is in {region}, not in {where.region}",
            fix=f"use a zone such as {where.region}-a, or region: {region}",
        )


def is_engine_of_the_platform(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """An engine that the platform does not bring."""
    where = workload.where
    if where.engine is None or where.platform is None or where.engine in ENGINES[where.platform]:
        return
    engines = ENGINES[where.platform]
    platforms = [platform for platform in typing.get_args(PlatformChoice) if where.engine in ENGINES[platform]]
    yield Finding(
        path="where.engine",
        what=f"{where.engine} does not start jobs on {where.platform}",
        fix=f"{f'use {one_of(engines)}' if engines else 'remove engine'}, or use platform: {one_of(platforms)}",
    )


def is_platform_for_the_task(workload: Workload, catalog: Catalog) -> Iterator[Finding]:
    """A platform that cannot do the task: the reason, and those that can."""
    platform = workload.where.platform
    reason = _cannot(workload)
    if platform is None or reason is None:
        return
    suited = [row.name for row in catalog.platforms if workload.task in row.suits and row.name != platform]
    others = [name for name in CLOUD_PLATFORMS if name != platform]
    yield Finding(
        path="where.platform",
        what=f"{platform} cannot do {workload.task}: {reason}",
        fix=f"use {one_of(suited or others)}",
    )


def _cannot(workload: Workload) -> str | None:
    """Why the platform cannot do the task. Cloud Run gives one GPU per instance and starts instances by request
    (docs.cloud.google.com/run/docs/configuring/services/gpu, read in captures of April 2026)."""
    if workload.where.platform != "cloud-run":
        return None
    if workload.task == "pretraining":
        return "an instance has one GPU, and instances share no accelerator network"
    if workload.graphics is not None and workload.graphics.use == "virtual-workstation":
        return "instances answer requests; they have no display to sit at"
    if workload.hpc is not None and workload.hpc.mpi:
        return "instances cannot send MPI messages to each other"
    return None
