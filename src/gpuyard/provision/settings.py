"""What a deployment is told beside the decision: project, place, image, program, storage, lifetime, owner."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.blueprint import Blueprint, blueprint_hash
from gpuyard.document import Doc, Plain
from gpuyard.workload.where import region_of

__all__ = ["Framework", "Place", "Settings", "place_of"]

Framework = Literal["torch", "jax", "torch-xla", "command"]
HOUR_S, DAY_S = 3600, 86_400
FLEX_START_MOST_S = 7 * DAY_S
SERVICE_S = 7 * DAY_S
SLACK_RATIO = 1.25  # of the expected time: an interruption more than expected does not end the job


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The parameters of a deployment. What has no default that is right everywhere is a placeholder to replace."""

    project: str = "my-project"
    region: Annotated[str, Doc("default: the workload's, then that of the bill")] = ""
    zone: Annotated[str, Doc("default: the workload's, then the first of the region")] = ""
    owner: Annotated[str, Doc("who is asked before it is deleted")] = "nobody"
    image: Annotated[str, Doc("container image; default: that of the framework or engine")] = ""
    program: Annotated[str, Doc("what the framework runs, e.g. train.py --config x")] = ""
    framework: Annotated[Framework | None, Doc("default: torch on GPUs, jax on TPUs")] = None
    bucket: Annotated[str, Doc("Cloud Storage bucket of checkpoints; default: PROJECT-NAME")] = ""
    ttl_s: Annotated[float | None, Doc("the server ends everything after this; default: by the expected time")] = None
    made_s: Annotated[float, Doc("when it was rendered, in seconds of the epoch")] = 0.0
    reservation: Annotated[str, Doc("name, or NAME/reservationBlocks/BLOCK")] = "my-reservation"
    network: Annotated[str, Doc("an existing VPC for the host; default: one is made")] = ""
    namespace: Annotated[str, Doc("Kubernetes namespace")] = "default"
    queue: Annotated[str, Doc("Kueue queue that exists; default: one is made on GKE, none elsewhere")] = ""
    partition: Annotated[str, Doc("Slurm partition; default: the cluster's own default")] = ""
    switches: Annotated[int | None, Doc("Slurm: the most leaf switches; default: as the fabric tells")] = None
    secret: Annotated[str, Doc("Kubernetes secret with the key token, for gated models")] = "hf-token"
    service_account: Annotated[str, Doc("identity of the machines; default: the project's own")] = ""
    ray: Annotated[bool, Doc("Kubernetes: RayJob and RayService in place of JobSet and LeaderWorkerSet")] = False
    claims: Annotated[bool | None, Doc("GKE: RDMA NICs by managed DRANET; default: where it works")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The settings with every default filled in for one blueprint: what renderers read."""

    settings: Settings
    name: Annotated[str, Doc("of every resource: the workload's, short, with the start of the hash")]
    hash: str
    project: str
    region: str
    zone: str
    zone_is_guessed: bool
    ttl_s: int
    bucket: str

    @property
    def expires(self) -> str:
        """When the last of it is to be gone, as a label: 2026-11-20t1400z."""
        moment = datetime.datetime.fromtimestamp(self.settings.made_s + self.ttl_s, tz=datetime.UTC)
        return moment.strftime("%Y-%m-%dt%H%Mz")

    @property
    def labels(self) -> dict[str, Plain]:
        """The labels of everything: who, which decision, until when."""
        return {
            "managed-by": "gpuyard",
            "owner": _label(self.settings.owner),
            "plan-hash": self.hash[:16],
            "expires-at": self.expires,
        }

    @property
    def stamp(self) -> str:
        """The labels as a text, for resources that take a description only."""
        return " ".join(f"{key}={value}" for key, value in self.labels.items())

    def short(self, most: int) -> str:
        """The name within `most` characters; the hash at its end stays."""
        tail = self.name.rsplit("-", 1)[1]
        return f"{self.name.rsplit('-', 1)[0][: most - len(tail) - 1].rstrip('-')}-{tail}"


def place_of(blueprint: Blueprint, settings: Settings) -> Place:
    """The settings with their defaults for a blueprint."""
    where, digest = blueprint.workload.where, blueprint_hash(blueprint)
    zone = settings.zone or where.zone or ""
    billed = blueprint.bill.region if blueprint.bill else ""
    region = settings.region or region_of(zone) or where.region or billed or "us-central1"
    base = re.sub(r"[^a-z0-9]+", "-", blueprint.name.lower()).strip("-") or "work"
    base = base if base[0].isalpha() else f"w-{base}"
    name = f"{base[:24].rstrip('-')}-{digest[:6]}"
    return Place(
        settings=settings,
        name=name,
        hash=digest,
        project=settings.project,
        region=region,
        zone=zone or f"{region}-a",
        zone_is_guessed=not zone,
        ttl_s=_ttl_s(blueprint, settings),
        bucket=settings.bucket or f"{settings.project}-{name}",
    )


def _ttl_s(blueprint: Blueprint, settings: Settings) -> int:
    """The lifetime: as told, or the expected time and a quarter; a week for services; flex-start ends at a week."""
    if settings.ttl_s is not None:
        wanted = settings.ttl_s
    elif not blueprint.has_end:
        wanted = SERVICE_S
    else:
        wanted = HOUR_S * max(1, math.ceil(SLACK_RATIO * blueprint.expected_s / HOUR_S))
    return int(min(wanted, FLEX_START_MOST_S) if blueprint.way == "flex-start" else wanted)


def _label(text: str) -> str:
    """A text as the value of a label."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:63] or "nobody"
