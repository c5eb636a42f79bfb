"""Deployment settings: project, location, image, program, storage, TTL and owner."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.saved import blueprint_hash
from gpuyard.document.field_types import Doc, FormerName
from gpuyard.document.frozen_json import Plain
from gpuyard.units import DURATION, HOUR_S, WEEK_S
from gpuyard.workload.where import region_of

# The first four train the plan by themselves; the others launch a program of the user.
Framework = Literal[
    "megatron-bridge", "axolotl", "maxtext", "torchtitan", "torch", "jax", "torch-xla", "command"
]
FileFormat = Literal["api", "terraform"]
FLEX_START_MAX_S = WEEK_S
SERVICE_TTL_S = WEEK_S
# TTL over expected time: one more interruption than expected does not stop the job.
TTL_RATIO = 1.25
NAME_LENGTH = 24  # of the workload's part of a resource name
HASH_LENGTH = 6
LABEL_LENGTH = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSettings:
    """Parameters of a deployment; a default that is not right everywhere is a placeholder."""

    project: str = "my-project"
    region: Annotated[str, Doc("default: of the workload, then of the cost estimate")] = ""
    zone: Annotated[str, Doc("default: of the workload, then the first of the region")] = ""
    owner: Annotated[str, Doc("whom to ask before deleting it")] = "nobody"
    image: Annotated[str, Doc("container image; default: of the framework or engine")] = ""
    program: Annotated[str, Doc("what the framework runs, e.g. train.py --config x")] = ""
    framework: Annotated[
        Framework | None,
        Doc("default: the plan's training software; with a program torch, on TPUs jax"),
    ] = None
    framework_args: Annotated[str, Doc("appended to the command line of the framework")] = ""
    bucket: Annotated[str, Doc("Cloud Storage bucket for checkpoints; default: PROJECT-NAME")] = ""
    ttl_s: Annotated[
        float | None,
        DURATION,
        Doc("the provider terminates everything after this; default: 1.25 × expected"),
    ] = None
    rendered_s: Annotated[
        float, FormerName("made_s"), Doc("time of rendering, in seconds since the epoch")
    ] = 0.0
    reservation: Annotated[str, Doc("name, or NAME/reservationBlocks/BLOCK")] = "my-reservation"
    network: Annotated[str, Doc("existing VPC for the host; default: a new one")] = ""
    namespace: Annotated[str, Doc("Kubernetes namespace")] = "default"
    queue: Annotated[
        str, Doc("existing Kueue queue; default: a new one on GKE, none elsewhere")
    ] = ""
    partition: Annotated[str, Doc("Slurm partition; default: the cluster's default")] = ""
    switches: Annotated[
        int | None, Doc("Slurm: maximum number of leaf switches; default: from the fabric")
    ] = None
    secret: Annotated[str, Doc("Kubernetes secret with the key token, for gated models")] = (
        "hf-token"
    )
    service_account: Annotated[str, Doc("identity of the machines; default: the project's")] = ""
    ray: Annotated[
        bool, Doc("Kubernetes: RayJob and RayService instead of JobSet and LeaderWorkerSet")
    ] = False
    gateway: Annotated[
        bool, Doc("GKE and Kubernetes: inference gateway with prefix-aware routing")
    ] = False
    gateway_class: Annotated[
        str, Doc("GatewayClass; default: gke-l7-rilb on Google Cloud, istio elsewhere")
    ] = ""
    format: Annotated[
        FileFormat, Doc("what creates the resources of Google Cloud: API requests or Terraform")
    ] = "api"
    claims: Annotated[
        bool | None, Doc("GKE: RDMA NICs by managed DRANET; default: if supported")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSettings:
    """The settings with every default resolved for one blueprint, as renderers read them."""

    requested: DeploymentSettings
    name: Annotated[str, Doc("of every resource: the workload's, shortened, and a hash prefix")]
    hash: str
    project: str
    region: str
    zone: str
    zone_is_guessed: bool
    ttl_s: int
    bucket: str

    @property
    def expires(self) -> str:
        """End of the TTL as a label value: 2026-11-20t1400z."""
        moment = datetime.datetime.fromtimestamp(
            self.requested.rendered_s + self.ttl_s, tz=datetime.UTC
        )
        return moment.strftime("%Y-%m-%dt%H%Mz")

    @property
    def labels(self) -> dict[str, Plain]:
        """Labels of every resource: owner, plan hash and expiry."""
        return {
            "managed-by": "gpuyard",
            "owner": _label(self.requested.owner),
            "plan-hash": self.hash[:16],
            "expires-at": self.expires,
        }

    @property
    def labels_text(self) -> str:
        """The labels as text, for resources that only have a description."""
        return " ".join(f"{key}={value}" for key, value in self.labels.items())

    def short(self, max_length: int) -> str:
        """Return the name within `max_length` characters; the hash prefix at its end stays."""
        name, digest = self.name.rsplit("-", 1)
        return f"{name[: max_length - len(digest) - 1].rstrip('-')}-{digest}"


def resolve_settings(blueprint: Blueprint, settings: DeploymentSettings) -> ResolvedSettings:
    """Fill in the defaults of the settings for a blueprint."""
    where = blueprint.workload.where
    digest = blueprint_hash(blueprint)
    zone = settings.zone or where.zone or ""
    billed = blueprint.bill.region if blueprint.bill else ""
    region = settings.region or region_of(zone) or where.region or billed or "us-central1"
    base = re.sub(r"[^a-z0-9]+", "-", blueprint.name.lower()).strip("-") or "work"
    base = base if base[0].isalpha() else f"w-{base}"
    name = f"{base[:NAME_LENGTH].rstrip('-')}-{digest[:HASH_LENGTH]}"
    return ResolvedSettings(
        requested=settings,
        name=name,
        hash=digest,
        project=settings.project,
        region=region,
        zone=zone or f"{region}-a",
        zone_is_guessed=not zone,
        ttl_s=_ttl_s(blueprint, settings),
        bucket=settings.bucket or f"{settings.project}-{name}",
    )


def _ttl_s(blueprint: Blueprint, settings: DeploymentSettings) -> int:
    if settings.ttl_s is not None:
        ttl_s = settings.ttl_s
    elif blueprint.is_batch:
        ttl_s = HOUR_S * max(1, math.ceil(TTL_RATIO * blueprint.expected_s / HOUR_S))
    else:
        ttl_s = SERVICE_TTL_S
    return int(min(ttl_s, FLEX_START_MAX_S) if blueprint.consumption == "flex-start" else ttl_s)


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:LABEL_LENGTH] or "nobody"
