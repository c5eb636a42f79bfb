"""`gpuyard catalog refresh` against a fake of Google's APIs, checked by their descriptions.

google_descriptions.json holds the methods, their query parameters and the fields of their responses
as the official discovery documents state them (its key `origin` names the revisions). The fake
rejects what a description does not contain, in requests and in its own responses.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from gpuyard.app.catalog_refresh import refresh_catalog
from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import open_workspace
from gpuyard.catalog.load import load_catalog
from gpuyard.errors import ExternalError
from gpuyard.home import Home
from gpuyard.http import HttpError, HttpResponse
from gpuyard.plan.option import Plan
from gpuyard.provision.apply.google import GoogleClient
from gpuyard.report.plan_age import price_age

DESCRIPTIONS = json.loads(
    (Path(__file__).parent / "google_descriptions.json").read_text(encoding="utf-8")
)
TODAY = datetime.date(2026, 11, 19)
ZONES = ("us-central1-a", "us-central1-c", "europe-west4-b")
HOSTS = {"a3-highgpu-8g": (208, 1872), "g2-standard-4": (4, 16), "m1-megamem-96": (96, 1433)}


def sku(description: str, usd: float, group: str, usage: str = "OnDemand") -> dict[str, Any]:
    """An SKU as the API returns it."""
    units = int(usd)
    money = {"currencyCode": "USD", "units": str(units), "nanos": round((usd - units) * 1e9)}
    unit = "GiBy.h" if group == "RAM" else "h"
    return {
        "description": description,
        "category": {"resourceFamily": "Compute", "resourceGroup": group, "usageType": usage},
        "serviceRegions": ["us-central1", "europe-west4"],
        "pricingInfo": [
            {
                "pricingExpression": {
                    "usageUnit": unit,
                    "tieredRates": [{"startUsageAmount": 0, "unitPrice": money}],
                }
            }
        ],
    }


SKUS = [
    sku("A3 Instance Core running in Americas", 0.03, "CPU"),
    sku("A3 Instance Ram running in Americas", 0.003, "RAM"),
    sku("Nvidia H100 80GB GPU running in Americas", 9.0, "GPU"),
    sku("Nvidia H100 80GB Mega GPU running in Americas", 9.9, "GPU"),
    sku("Spot Preemptible A3 Instance Core", 0.01, "CPU", "Preemptible"),
    sku("Spot Preemptible A3 Instance Ram", 0.001, "RAM", "Preemptible"),
    sku("Nvidia H100 80GB GPU attached to Spot Preemptible VMs", 3.0, "GPU", "Preemptible"),
    sku("Commitment: Nvidia H100 80GB GPU for 1 year", 5.0, "GPU", "Commit1Yr"),
    sku("A3 Custom Instance Core", 99.0, "CPU"),
    sku("Nvidia Tesla T4 GPU running in Americas", 0.4, "GPU"),
    sku("G2 Instance Core running in Americas", 0.025, "CPU"),
]


@dataclass
class FakeGoogle:
    """Answers the four list methods in pages of two rows."""

    forbidden: str = ""
    requests: list[str] = field(default_factory=list)

    def send(self, method: str, url: str, body: str = "") -> HttpResponse:
        assert (method, body) == ("GET", "")
        self.requests.append(url)
        base, _, query = url.partition("?")
        name, description = next(
            (name, row)
            for name, row in DESCRIPTIONS["methods"].items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", row["url"]), base)
        )
        given = dict(parse_qsl(query))
        assert set(given) <= set(description["query"]), f"{name} has no parameter {given}"
        if self.forbidden and self.forbidden in name:
            response = HttpResponse(
                status=403,
                text=json.dumps({"error": {"code": 403, "message": f"{name} is disabled"}}),
            )
            raise HttpError(base, response, "enable the API")
        tree = self.page(name, int(given.get("pageToken", "0")))
        conforms(tree, "#" + description["response"])
        return HttpResponse(status=200, text=json.dumps(tree))

    def page(self, name: str, start: int) -> dict[str, Any]:
        rows: list[Any] = {
            "cloudbilling.services.skus.list": SKUS,
            "compute.machineTypes.aggregatedList": [
                {"name": host, "guestCpus": cpus, "memoryMb": gib * 1024, "zone": zone}
                for zone in ZONES
                for host, (cpus, gib) in HOSTS.items()
            ],
            "compute.acceleratorTypes.aggregatedList": [
                {"name": "nvidia-tesla-t4", "zone": f"https://x/zones/{zone}"} for zone in ZONES
            ],
            "compute.regions.list": [
                {
                    "name": "us-central1",
                    "quotas": [
                        {"metric": "NVIDIA_H100_GPUS", "limit": 8, "usage": 4},
                        {"metric": "CPUS", "limit": 72, "usage": 0},
                    ],
                }
            ],
        }[name]
        part, end = rows[start : start + 2], start + 2
        token = {"nextPageToken": str(end)} if end < len(rows) else {}
        if name.endswith("skus.list"):
            return {"skus": part, **token}
        if name.endswith("aggregatedList"):
            kind = name.split(".")[1]
            scoped: dict[str, Any] = {}
            for row in part:
                zone = row["zone"].rpartition("/")[2]
                scoped.setdefault(f"zones/{zone}", {kind: []})[kind].append(row)
            return {"items": scoped, **token}
        return {"items": part, **token}


def conforms(tree: Any, shape: Any) -> None:
    """Fail if a response has a field that the description does not have."""
    if isinstance(shape, str) and shape.startswith("#"):
        shape = DESCRIPTIONS["schemas"][shape[1:]]
    if isinstance(shape, list):
        for item in tree:
            conforms(item, shape[0])
    elif isinstance(shape, dict):
        for key, value in tree.items():
            conforms(value, shape[key] if key in shape else shape["*"])
    else:
        kinds: dict[str, Any] = {"string": str, "integer": int, "number": (int, float)}
        assert isinstance(tree, kinds.get(shape, object)), f"{tree} is not a {shape}"


class NoWait:
    def now_s(self) -> float:
        return 0.0

    def sleep(self, span_s: float) -> None:
        raise AssertionError(f"waited {span_s}")


def refreshed(folder: Path, google: FakeGoogle) -> Home:
    home = Home(path=folder / ".gpuyard")
    refresh_catalog(GoogleClient(transport=google, clock=NoWait()), "my-project", home, TODAY)
    return home


def test_price_is_the_sum_of_its_parts_in_every_region_of_the_machine(tmp_path: Path) -> None:
    catalog = load_catalog(refreshed(tmp_path, FakeGoogle()).catalog_layers)
    prices = {price.name: price for price in catalog.prices if price.date == TODAY}
    a3 = prices["google/us-central1/a3-highgpu-8g"]
    assert a3.on_demand_usd_per_hour == pytest.approx(8 * 9.0 + 208 * 0.03 + 1872 * 0.003)
    assert a3.spot_usd_per_hour == pytest.approx(8 * 3.0 + 208 * 0.01 + 1872 * 0.001)
    assert a3.zones == ("us-central1-a", "us-central1-c")
    assert prices["google/europe-west4/a3-highgpu-8g"].zones == ("europe-west4-b",)
    assert prices["google/europe-west4/n1-4xt4"].on_demand_usd_per_hour == pytest.approx(1.6)
    assert prices["google/europe-west4/n1-4xt4"].covers == "accelerators"


def test_what_the_api_does_not_state_stays(tmp_path: Path) -> None:
    built_in = next(
        row for row in load_catalog().prices if row.name == "google/us-central1/a3-highgpu-8g"
    )
    catalog = load_catalog(refreshed(tmp_path, FakeGoogle()).catalog_layers)
    rows = {price.name: price for price in catalog.prices}
    a3 = rows[built_in.name]
    assert a3.committed_1y_usd_per_hour == built_in.committed_1y_usd_per_hour
    assert a3.local_ssd_usd_per_hour == built_in.local_ssd_usd_per_hour
    # G2 has no SKU of its memory here: the built-in price stays.
    assert rows["google/us-central1/g2-standard-4"].date < TODAY


def test_plan_uses_the_layer_with_its_date_and_quota(tmp_path: Path) -> None:
    refreshed(tmp_path, FakeGoogle())
    (tmp_path / "w.yaml").write_text(
        "task: finetuning\nmodel: llama-3.1-8b\ndata: {tokens: 10M, sequence: 2048}\n"
        "training: {method: lora, lora_rank: 16}\n"
        "where: {region: us-central1, machines: [a3-highgpu-8g], consumption: [on-demand]}\n",
        encoding="utf-8",
    )
    workspace = open_workspace(tmp_path / "w.yaml")
    plan = plan_workload(workspace)
    assert isinstance(plan, Plan)
    assert plan.options[0].bill is not None
    assert any(
        note.startswith("quota: NVIDIA_H100_GPUS in us-central1 leaves 4 of 8")
        for note in plan.notes
    )
    assert [*price_age(plan, workspace.catalog, TODAY)] == [f"prices of {TODAY}, 0 days old"]
    old = [*price_age(plan, load_catalog(), TODAY)]
    assert "gpuyard catalog refresh" in old[0]


def test_disabled_api_is_an_external_error_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match=r"skus\.list is disabled"):
        refreshed(tmp_path, FakeGoogle(forbidden="skus"))
    assert not (tmp_path / ".gpuyard").exists()


def test_requests_go_to_google_only_and_name_the_project(tmp_path: Path) -> None:
    google = FakeGoogle()
    refreshed(tmp_path, google)
    assert all(
        re.match(r"https://(cloudbilling|compute)\.googleapis\.com/", url)
        for url in google.requests
    )
    assert any("projects/my-project/" in url for url in google.requests)
