"""Read-only answers of a project: services, permissions, machine types, quota, images, prices."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

Tree = dict[str, Any]
Reply = tuple[int, Tree]


def sku(description: str, usd: float, usage: str = "OnDemand", region: str = "us-central1") -> Tree:
    """A SKU of the Cloud Billing catalog."""
    unit = {"units": str(int(usd)), "nanos": round(usd % 1 * 1e9)}
    return {
        "description": description,
        "category": {"usageType": usage, "resourceFamily": "Compute"},
        "serviceRegions": [region],
        "pricingInfo": [
            {"pricingExpression": {"usageUnit": "h", "tieredRates": [{"unitPrice": unit}]}}
        ],
    }


@dataclass
class Project:
    """What a project has and allows."""

    disabled: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    zones: tuple[str, ...] = ("us-central1-a", "us-central1-b")
    machines: tuple[str, ...] = ("a2-highgpu-1g", "a3-megagpu-8g")
    images: dict[str, Tree] = field(default_factory=dict)
    missing_images: bool = False
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)
    families: dict[str, float] = field(default_factory=dict)
    reservations: dict[str, Tree] = field(default_factory=dict)
    obtainability: float = 0.9
    skus: list[Tree] = field(default_factory=list)

    def answer(self, service: str, http: str, path: str, text: str) -> Reply | None:
        """Return the answer to a request that only reads the project; None for any other."""
        for pattern, verb, method in ROUTES:
            match = re.fullmatch(pattern, f"{service}:{path}")
            if match and verb == http:
                return method(self, *match.groups(), *((json.loads(text),) if text else ()))
        return None

    def service(self, name: str) -> Reply:
        return 200, {"state": "DISABLED" if name in self.disabled else "ENABLED"}

    def permissions(self, body: Tree) -> Reply:
        return 200, {"permissions": [row for row in body["permissions"] if row not in self.denied]}

    def zone(self, name: str) -> Reply:
        return (200, {"name": name, "status": "UP"}) if name in self.zones else absent(name)

    def machine(self, name: str) -> Reply:
        return (200, {"name": name}) if name in self.machines else absent(name)

    def image(self, name: str) -> Reply:
        if self.missing_images:
            return absent(name)
        return 200, self.images.get(name, {"name": f"{name}-v20260901"})

    def region(self) -> Reply:
        return 200, {
            "quotas": [
                {"metric": name, "limit": limit, "usage": usage}
                for name, (limit, usage) in self.metrics.items()
            ]
        }

    def family(self) -> Reply:
        return 200, {
            "dimensionsInfos": [
                {
                    "dimensions": {"gpu_family": name, "region": "us-central1"},
                    "details": {"value": str(limit)},
                }
                for name, limit in self.families.items()
            ]
        }

    def reservation(self, name: str) -> Reply:
        tree = self.reservations.get(name)
        return (200, {"specificReservation": tree}) if tree else absent(name)

    def advice(self, body: Tree) -> Reply:
        assert body["size"] >= 1
        scores = {"obtainability": self.obtainability, "estimatedUptime": "7200s"}
        return 200, {"recommendations": [{"scores": scores}]}

    def prices(self) -> Reply:
        return 200, {"skus": self.skus}


def absent(name: str) -> Reply:
    return 404, {"error": {"code": 404, "message": f"{name} was not found"}}


COMPUTE = r"compute:compute/v1/projects/[^/]+"
ROUTES: tuple[tuple[str, str, Any], ...] = (
    (r"serviceusage:v1/projects/[^/]+/services/([\w.]+)", "GET", Project.service),
    (r"cloudresourcemanager:v1/projects/[^/]+:testIamPermissions", "POST", Project.permissions),
    (rf"{COMPUTE}/zones/([\w-]+)", "GET", Project.zone),
    (rf"{COMPUTE}/zones/[\w-]+/machineTypes/([\w-]+)", "GET", Project.machine),
    (rf"{COMPUTE}/zones/[\w-]+/reservations/([\w-]+)", "GET", Project.reservation),
    (rf"{COMPUTE}/global/images/(?:family/)?([\w-]+)", "GET", Project.image),
    (rf"{COMPUTE}/regions/[\w-]+", "GET", Project.region),
    (COMPUTE, "GET", Project.region),
    (rf"{COMPUTE}/regions/[\w-]+/advice/capacity", "POST", Project.advice),
    (r"cloudquotas:v1/projects/.*/quotaInfos/[\w-]+", "GET", Project.family),
    (r"cloudbilling:v1/services/[\w-]+/skus", "GET", Project.prices),
)
