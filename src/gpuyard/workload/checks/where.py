"""Checks of `where`: provider, region, platform and engine agree with each other and the task."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Problem, choices_text
from gpuyard.workload.key_rules import entries
from gpuyard.workload.where import EngineName, PlatformChoice, region_of
from gpuyard.workload.workload import Workload

_CLOUD_ONLY = ("region", "zone", "consumption")
_ONPREM_ONLY = ("inventory", "switch")
_ONE_CLOUD_ONLY = ("region", "zone", "platform")
_SELECTION = ("platform", "machines", "exclude", "max_chips")
CLOUD_PLATFORMS: tuple[PlatformChoice, ...] = (
    "compute-engine",
    "gke",
    "slurm",
    "vertex-ai",
    "cloud-run",
)
ONPREM_PLATFORMS: tuple[PlatformChoice, ...] = ("slurm", "kubernetes")
ENGINES: dict[PlatformChoice, tuple[EngineName, ...]] = {
    "compute-engine": ("local", "ray"),
    "gke": ("kubernetes", "ray"),
    "kubernetes": ("kubernetes", "ray"),
    "slurm": ("slurm", "ray"),
    "vertex-ai": ("ray", "slurm"),  # Ray on Vertex AI; training clusters are managed Slurm
    "cloud-run": (),
}


def check_provider(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report keys and platforms of another provider, and a missing inventory."""
    where = workload.where
    unused: dict[str, tuple[str, ...]] = {
        "onprem": _CLOUD_ONLY,
        "local": (*_CLOUD_ONLY, *_ONPREM_ONLY, *_SELECTION),
        "any": (*_ONPREM_ONLY, *_ONE_CLOUD_ONLY),
    }
    for entry in entries(workload):
        section, _, word = entry.path.partition(".")
        keys = unused.get(where.provider, _ONPREM_ONLY)
        if section != "where" or not entry.given or word not in keys:
            continue
        other = "onprem" if word in _ONPREM_ONLY else "google"
        users = {"onprem": "clouds", "local": "a choice of machines"}.get(
            where.provider, "on-premises machines" if word in _ONPREM_ONLY else "one cloud"
        )
        yield Problem(
            where=entry.path,
            what=f"{word} is for {users}; provider is {where.provider}",
            fix=f"remove {word}, or use provider: {other}",
        )
    if where.provider == "onprem" and not (where.inventory or where.cluster):
        yield Problem(
            where="where",
            what="the inventory is missing",
            fix="add inventory: {<machine>: <count>}, such as {dgx-h100: 16}",
        )
    platforms = CLOUD_PLATFORMS if where.provider == "google" else ONPREM_PLATFORMS
    if where.provider != "local" and where.platform is not None and where.platform not in platforms:
        meant = {"gke": "kubernetes", "kubernetes": "gke"}.get(where.platform)
        yield Problem(
            where="where.platform",
            what=f"{where.platform} is not a platform of provider {where.provider}",
            fix=f"use {meant or choices_text(platforms)}",
        )


def check_local_pipeline(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report a local workload without stages to run."""
    if workload.where.provider == "local" and workload.pipeline is None:
        yield Problem(
            where="where.provider",
            what="a local workload has no stages to run",
            fix="add pipeline: with data, train, evaluate, select or deploy, "
            "or use provider: google",
        )


def check_region(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report a zone or region that does not exist; one without known prices is accepted."""
    where = workload.where
    if where.provider in ("onprem", "local", "any"):
        return
    if where.provider != "google":
        yield from _check_region_of_prices(workload, catalog)
        return
    if where.zone is not None and region_of(where.zone) is None:
        yield Problem(
            where="where.zone",
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
        what = "is not a Google Cloud region of the catalog"
        suggestion = f"use {choices_text(close)}, or " if close else ""
        fix = f"{suggestion}add [regions.{where.region}] to your own catalog file"
    yield Problem(
        where="where.zone" if in_zone else "where.region", what=f'"{where.region}" {what}', fix=fix
    )


def _check_region_of_prices(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report a region without a machine of the provider, and a zone, which only Google has here."""
    where = workload.where
    known = sorted({row.region for row in catalog.prices if row.provider == where.provider})
    if where.zone is not None:
        yield Problem(
            where="where.zone",
            what=f"zones of {where.provider} are not in the catalog",
            fix="use where.region",
        )
    elif where.region is not None and where.region not in known:
        close = difflib.get_close_matches(where.region, known, n=3, cutoff=0.6)
        yield Problem(
            where="where.region",
            what=f'"{where.region}" is not a region of {where.provider} in the catalog',
            fix=f"use {choices_text(close or known, limit=6)}",
        )


def check_zone(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report a zone of another region."""
    where = workload.where
    region = region_of(where.zone or "")
    if region is not None and where.region is not None and region != where.region:
        yield Problem(
            where="where.zone",
            what=f"{where.zone} is in {region}, not in {where.region}",
            fix=f"use a zone such as {where.region}-a, or region: {region}",
        )


def check_engine(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report an engine that the platform does not support."""
    where = workload.where
    if where.engine is None or where.platform is None or where.engine in ENGINES[where.platform]:
        return
    engines = ENGINES[where.platform]
    platforms = [
        platform
        for platform in typing.get_args(PlatformChoice)
        if where.engine in ENGINES[platform]
    ]
    suggestion = f"use {choices_text(engines)}" if engines else "remove engine"
    yield Problem(
        where="where.engine",
        what=f"{where.platform} does not support engine {where.engine}",
        fix=f"{suggestion}, or use platform: {choices_text(platforms)}",
    )


def check_platform(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Report a platform that cannot run the task, with those that can."""
    platform = workload.where.platform
    reason = _cloud_run_limit(workload)
    if platform is None or reason is None:
        return
    suited = [
        row.name for row in catalog.platforms if workload.task in row.suits and row.name != platform
    ]
    others = [name for name in CLOUD_PLATFORMS if name != platform]
    yield Problem(
        where="where.platform",
        what=f"{platform} cannot run {workload.task}: {reason}",
        fix=f"use {choices_text(suited or others)}",
    )


# Cloud Run has one GPU per instance and starts instances by request
# (docs.cloud.google.com/run/docs/configuring/services/gpu, captures of April 2026).
def _cloud_run_limit(workload: Workload) -> str | None:
    if workload.where.platform != "cloud-run":
        return None
    if workload.task == "pretraining":
        return "an instance has one GPU, and instances share no accelerator network"
    if workload.graphics is not None and workload.graphics.use == "virtual-workstation":
        return "instances serve requests; they have no display"
    if workload.hpc is not None and workload.hpc.mpi:
        return "instances cannot send MPI messages to each other"
    return None
