"""GPU quota: of the region, of the GPU family, and of all regions together.

Older GPUs have a metric each in regions.get; since H100 the quota is one metric with the dimension
gpu_family, which only the Cloud Quotas API shows
(https://cloud.google.com/compute/resource-usage, https://cloud.google.com/docs/quotas/api-overview).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.preflight.check_row import CheckRow, failed, ok, unknown
from gpuyard.provision.preflight.cloud_reader import CloudReader
from gpuyard.provision.preflight.google_checks import Target

QUOTAS = "https://cloudquotas.googleapis.com/v1"
FAMILY_QUOTA = "GPUS-PER-GPU-FAMILY-per-project-region"
# These draw on quota of preemptible GPUs (https://cloud.google.com/compute/docs/gpus/about-gpus).
PREEMPTIBLE = ("spot", "flex-start")
Tree = dict[str, Plain]


def quota_rows(target: Target, reader: CloudReader) -> Iterator[CheckRow]:
    """The project may have this many GPUs."""
    blueprint = target.blueprint
    gpus = blueprint.machine.chip_count * target.machine_count
    if blueprint.consumption == "reservation":
        yield ok("quota", blueprint.machine.api_name, "was used when the reservation was created")
        return
    if blueprint.is_tpu or not blueprint.machine.api_name or gpus < 1:
        fix = "see IAM & Admin > Quotas in the console"
        yield unknown("quota", blueprint.machine.name, "no known metric", fix)
        return
    family = gpu_family(blueprint.machine.api_name)
    prefix = "PREEMPTIBLE_" if blueprint.consumption in PREEMPTIBLE else ""
    reply = reader.get(target.region_url)
    if reply.error:
        yield reply.as_unknown("quota", target.settings.region)
    else:
        metrics = _metrics(reply.tree)
        names = [f"{prefix}{family}_GPUS", f"{prefix}{family.replace('_MEGA', '')}_GPUS"]
        name = next((item for item in names if item in metrics), "")
        if name:
            yield _row(name, *metrics[name], gpus, target.settings.region)
        else:
            yield _family_row(target, reader, family, gpus, is_spot=bool(prefix))
    if not prefix:
        yield from _all_regions(target, reader, gpus)


def gpu_family(accelerator: str) -> str:
    """Return the quota family of an accelerator: NVIDIA_H100_MEGA of nvidia-h100-mega-80gb."""
    name = accelerator.replace("tesla-", "").replace("-", "_").upper()
    return name if name.startswith("NVIDIA_A100") else re.sub(r"_\d+GB$", "", name)


def _metrics(tree: Tree) -> dict[str, tuple[float, float]]:
    rows = tree.get("quotas")
    return {
        str(row.get("metric")): (float(str(row.get("limit"))), float(str(row.get("usage", 0))))
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
    }


def _row(name: str, limit: float, usage: float, needed: float, place: str) -> CheckRow:
    what = f"{usage:g} of {limit:g} used, {needed:g} needed"
    if usage + needed <= limit:
        return ok("quota", name, what)
    fix = f"request {usage + needed:g} in {place} under IAM & Admin > Quotas"
    return failed("quota", name, what, fix)


def _family_row(
    target: Target, reader: CloudReader, family: str, gpus: float, *, is_spot: bool
) -> CheckRow:
    region, subject = target.settings.region, f"GPUS_PER_GPU_FAMILY {family}"
    quota = f"PREEMPTIBLE-{FAMILY_QUOTA}" if is_spot else FAMILY_QUOTA
    place = f"projects/{target.settings.project}/locations/global/services/compute.googleapis.com"
    reply = reader.get(f"{QUOTAS}/{place}/quotaInfos/{quota}")
    if reply.error:
        return reply.as_unknown("quota", subject)
    rows = reply.tree.get("dimensionsInfos")
    limits = {
        str(dimensions.get("region") or ""): float(str(details.get("value", 0)))
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
        for dimensions in [cast(Tree, row.get("dimensions") or {})]
        for details in [cast(Tree, row.get("details") or {})]
        if dimensions.get("gpu_family") == family
    }
    limit = limits.get(region, limits.get(""))
    if limit is None:
        return unknown("quota", subject, f"no limit is listed for {region}")
    what = f"limit {limit:g}, {gpus:g} needed; the API does not show what is used"
    if gpus <= limit:
        return ok("quota", subject, what)
    fix = f"request {gpus:g} in {region} under IAM & Admin > Quotas"
    return failed("quota", subject, what, fix)


def _all_regions(target: Target, reader: CloudReader, gpus: float) -> Iterator[CheckRow]:
    reply = reader.get(target.project_url)
    name = "GPUS_ALL_REGIONS"
    if reply.error:
        yield reply.as_unknown("quota", name)
    elif name in (metrics := _metrics(reply.tree)):
        yield _row(name, *metrics[name], gpus, "all regions")
