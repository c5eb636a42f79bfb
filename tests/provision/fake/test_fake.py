"""The fake cloud: its responses follow the API descriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuyard.provision.schemas.library import GOOGLE_APIS, library

from .cloud import Cloud
from .routes import route_of

NETWORKS = "/compute/v1/projects/p/global/networks"


def post(
    cloud: Cloud, path: str, body: Any, service: str = "compute"
) -> tuple[int, dict[str, Any]]:
    return cloud.answer(service, "POST", path, json.dumps(body))


def get(cloud: Cloud, path: str, service: str = "compute") -> tuple[int, dict[str, Any]]:
    return cloud.answer(service, "GET", path, "")


def test_every_described_method_has_a_route() -> None:
    for api in GOOGLE_APIS:
        for method in library(api).methods.values():
            path = method.path.replace("{", "").replace("}", "")
            found = route_of(api.split(".")[0], method.http, path)
            assert found is not None, method.name
            assert found[0].method.path == method.path


def test_resource_is_created_once() -> None:
    cloud = Cloud(delay=2, is_late=True)
    status, operation = post(
        cloud, f"{NETWORKS}?requestId=a", {"name": "n", "autoCreateSubnetworks": False}
    )
    assert (status, operation["status"]) == (200, "RUNNING")
    assert get(cloud, f"{NETWORKS}/n")[0] == 404
    assert post(cloud, f"{NETWORKS}?requestId=a", {"name": "n"})[1]["name"] == operation["name"]
    assert get(cloud, f"{NETWORKS}/n")[0] == 200
    assert (
        get(cloud, f"/compute/v1/projects/p/global/operations/{operation['name']}")[1]["status"]
        == "DONE"
    )
    assert post(cloud, f"{NETWORKS}?requestId=b", {"name": "n"})[0] == 409
    assert cloud.makings == [f"{NETWORKS}/n".lstrip("/")]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "n", "mtu": "big"}, "resource.mtu"),
        ({"name": "n", "autoCreateSubnetwork": False}, "resource.autoCreateSubnetwork"),
        (
            {"name": "n", "routingConfig": {"routingMode": "LOCAL"}},
            "resource.routingConfig.routingMode",
        ),
    ],
)
def test_invalid_body_is_rejected_with_field_path(body: Any, field: str) -> None:
    status, tree = post(Cloud(), NETWORKS, body)
    assert status == 400
    assert f"'{field}'" in tree["error"]["message"]


def test_unknown_query_parameter_is_rejected() -> None:
    assert post(Cloud(), f"{NETWORKS}?requestID=a", {"name": "n"})[0] == 400


def test_resources_in_use_and_missing_references_are_rejected() -> None:
    cloud = Cloud(delay=0)
    subnets = "/compute/v1/projects/p/regions/r/subnetworks"
    subnet = {"name": "s", "network": "projects/p/global/networks/n", "ipCidrRange": "10.0.0.0/16"}
    assert post(cloud, subnets, subnet)[0] == 400
    post(cloud, NETWORKS, {"name": "n"})
    assert post(cloud, subnets, subnet)[0] == 200
    refused = cloud.answer("compute", "DELETE", f"{NETWORKS}/n", "")
    assert refused[1]["error"]["errors"][0]["reason"] == "resourceInUseByAnotherResource"
    assert cloud.answer("compute", "DELETE", f"{subnets}/s", "")[0] == 200
    assert cloud.answer("compute", "DELETE", f"{NETWORKS}/n", "")[0] == 200
    assert cloud.resources == {}


def test_lists_are_paged_and_aggregated_over_zones() -> None:
    cloud = Cloud(delay=0)
    for number in range(5):
        post(cloud, NETWORKS, {"name": f"n{number}"})
    first = get(cloud, NETWORKS)[1]
    assert len(first["items"]) == 2
    assert len(get(cloud, f"{NETWORKS}?pageToken={first['nextPageToken']}")[1]["items"]) == 2
    post(cloud, "/compute/v1/projects/p/zones/z/disks", {"name": "d"})
    assert list(get(cloud, "/compute/v1/projects/p/aggregated/disks")[1]["items"]) == ["zones/z"]


def test_services_with_equal_paths_are_separate() -> None:
    cloud = Cloud(delay=0)
    path = "/v1/projects/p/locations/l/clusters"
    assert (
        post(cloud, path, {"cluster": {"name": "c", "initialNodeCount": 1}}, "container")[0] == 200
    )
    assert post(cloud, path, {"cluster": {"name": "d"}}, "hypercomputecluster")[0] == 400
    assert get(cloud, "/v1/projects/p/locations/l/customJobs", "us-central1-aiplatform")[0] == 200
    assert get(cloud, "/v1/projects/p/locations/l/customJobs", "container")[0] == 404
