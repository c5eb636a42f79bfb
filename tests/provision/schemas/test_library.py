"""Shipped API descriptions: complete, small, dated, licensed."""

from __future__ import annotations

import datetime

import pytest

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.schemas.library import (
    DATA,
    GOOGLE_APIS,
    KUBERNETES_LIBRARIES,
    library,
    toolkit_modules,
)

LIBRARIES = (*GOOGLE_APIS, *KUBERNETES_LIBRARIES)


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_schema_reference_resolves(name: str) -> None:
    books = library(name)

    def refs(tree: Plain) -> set[str]:
        if isinstance(tree, dict):
            own = (
                {str(tree["$ref"]).removeprefix("#/$defs/")}
                if isinstance(tree.get("$ref"), str)
                else set()
            )
            return own.union(*(refs(child) for child in tree.values()))
        return set().union(*(refs(child) for child in tree)) if isinstance(tree, list) else set()

    assert refs(books.raw) <= set(books.raw)
    for schema in books.raw:
        books.schema(schema)
    assert {method.request for method in books.methods.values()} - {""} <= set(books.raw)
    assert set(books.kinds.values()) <= set(books.raw)


@pytest.mark.parametrize("name", LIBRARIES)
def test_origins_have_date_and_licence(name: str) -> None:
    for origin in library(name).origins:
        assert datetime.date.fromisoformat(origin.date) > datetime.date(2026, 1, 1)
        assert origin.licence in ("Apache-2.0", "MIT")
        assert origin.url.startswith("https://")
        assert origin.revision
        assert origin.title


def test_data_is_small_and_notice_names_every_origin() -> None:
    assert sum(path.stat().st_size for path in DATA.glob("*.gz")) < 100_000
    notice = (DATA / "NOTICE.md").read_text(encoding="utf-8")
    for name in LIBRARIES:
        assert all(origin.url in notice for origin in library(name).origins), name


def test_rendered_kinds_have_schemas() -> None:
    kinds = {kind for name in KUBERNETES_LIBRARIES for kind in library(name).kinds}
    wanted = (
        "batch/v1 Job,v1 Pod,v1 Service,apps/v1 Deployment,apps/v1 DaemonSet,apps/v1 StatefulSet,"
        "autoscaling/v2 HorizontalPodAutoscaler,scheduling.k8s.io/v1 PriorityClass,v1 ConfigMap,v1 Secret,"
        "v1 PersistentVolume,v1 PersistentVolumeClaim,v1 ServiceAccount,resource.k8s.io/v1 ResourceClaimTemplate,"
        "networking.k8s.io/v1 NetworkPolicy,v1 Namespace,jobset.x-k8s.io/v1alpha2 JobSet,"
        "kueue.x-k8s.io/v1beta2 ClusterQueue,kueue.x-k8s.io/v1beta2 LocalQueue,kueue.x-k8s.io/v1beta2 Topology,"
        "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet,ray.io/v1 RayJob,ray.io/v1 RayCluster,ray.io/v1 RayService,"
        "networking.gke.io/v1 Network,networking.gke.io/v1 GKENetworkParamSet"
    )
    assert set(wanted.split(",")) <= kinds


def test_called_methods_are_described() -> None:
    methods = {method for api in GOOGLE_APIS for method in library(api).methods}
    for resource in (
        "instances",
        "instanceTemplates",
        "resourcePolicies",
        "instanceGroupManagers",
        "reservations",
        "networks",
        "subnetworks",
        "firewalls",
        "routers",
    ):
        assert {
            f"compute.{resource}.{verb}" for verb in ("insert", "get", "list", "delete")
        } <= methods
    assert (
        library("compute.v1").methods["compute.instances.insert"].path
        == "compute/v1/projects/{project}/zones/{zone}/instances"
    )
    assert "requestId" in library("compute.v1").methods["compute.instances.insert"].query


def test_toolkit_modules_have_variables_and_outputs() -> None:
    pool = toolkit_modules()["modules/compute/gke-node-pool"]
    assert len(toolkit_modules()) >= 60
    assert len(pool.variables) >= 58
    assert "cluster_id" in pool.required
    assert "internal_ghpc_module_id" not in pool.required  # which the Toolkit itself sets
    assert pool.variables["spot"] == "bool"
