"""Inference gateway: pool, route, gateway and endpoint picker as in the public charts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from gpuyard.app.provision import provision
from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.extra_files import with_extra_files
from gpuyard.provision.platform import Artefacts, Platform, Unsuitable
from gpuyard.provision.platforms.gke.gke_platform import GKE
from gpuyard.provision.platforms.kubernetes.kubernetes_platform import KUBERNETES
from gpuyard.workload.sections import Traffic

from .rendering import (
    SETTINGS,
    at,
    blueprint_of,
    body_of,
    catalog,
    check,
    file_of,
    render,
    render_artefacts,
)

WITH_GATEWAY = replace(SETTINGS, gateway=True)
POOL_GROUP = "inference.networking.k8s.io"


def service(machine: str = "g2-standard-8", engine: str = "vllm", replicas: int = 3) -> Blueprint:
    blueprint = blueprint_of(machine, "service", None if "dgx" in machine else "on-demand")
    planned = blueprint.option.service
    assert planned is not None
    scaling = replace(planned.autoscaling, min_replicas=1, max_replicas=replicas)
    command = replace(planned.engine, name=engine)
    planned = replace(planned, replicas=replicas, autoscaling=scaling, engine=command)
    return replace(blueprint, option=replace(blueprint.option, service=planned))


def objects(artefacts: Artefacts) -> dict[tuple[str, str], dict[str, Plain]]:
    """Return the objects of the service by kind and by what its name adds to the service's."""
    result = {}
    items = list(yaml.safe_load_all(file_of(artefacts, "50-service.yaml").text))
    name = next(item["metadata"]["name"] for item in items if item["kind"] == "Service")
    for item in items:
        result[item["kind"], item["metadata"]["name"].removeprefix(name).strip("-")] = item
    return result


def gateway_of(
    platform: Platform, blueprint: Blueprint, settings: DeploymentSettings = WITH_GATEWAY
) -> dict[tuple[str, str], dict[str, Plain]]:
    return objects(render_artefacts(platform, blueprint, settings))


def test_gateway_is_rendered_only_on_request() -> None:
    kinds = {kind for kind, _ in gateway_of(GKE, service(), SETTINGS)}
    assert not kinds & {"Gateway", "HTTPRoute", "InferencePool"}
    cluster = body_of(render_artefacts(GKE, service()), "20-cluster.json")
    assert "gatewayApiConfig" not in str(cluster)


@pytest.mark.parametrize(
    ("platform", "machine"),
    [(GKE, "g2-standard-8"), (KUBERNETES, "g2-standard-8"), (KUBERNETES, "dgx-h100")],
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_files_pass_the_checks(platform: Platform, machine: str, engine: str) -> None:
    result = check(*render_artefacts(platform, service(machine, engine), WITH_GATEWAY).files)
    assert not result.errors
    assert not result.warnings
    # Prometheus and Istio have no shipped schema.
    assert all(
        "PodMonitoring" in note.what or "DestinationRule" in note.what for note in result.findings
    )


def test_misspelt_field_of_the_pool_is_an_error() -> None:
    file = file_of(render_artefacts(GKE, service(), WITH_GATEWAY), "50-service.yaml")
    for good, bad in (
        ("endpointPickerRef:", "extensionRef:"),
        ("failureMode: FailOpen", "failureMode: Open"),
        ("gatewayClassName:", "gatewayClass:"),
        ("requestPath:", "path:"),
    ):
        assert good in file.text
        assert check(replace(file, text=file.text.replace(good, bad))).errors, bad


def test_pool_and_route_have_the_form_of_the_public_chart() -> None:
    """Charts llm-d-router-gateway and routerlib of github.com/llm-d/llm-d-router v0.9.0."""
    made = gateway_of(GKE, service())
    name = str(at(made["Service", ""], "metadata", "name"))
    pool = made["InferencePool", ""]
    assert pool["apiVersion"] == f"{POOL_GROUP}/v1"
    assert pool["spec"] == {
        "targetPorts": [{"number": 8000}],
        "selector": {"matchLabels": {"app": name}},
        "endpointPickerRef": {
            "name": f"{name}-epp",
            "port": {"number": 9002},
            "failureMode": "FailOpen",
        },
    }
    route = made["HTTPRoute", ""]
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1"
    assert route["spec"] == {
        "parentRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name}],
        "rules": [
            {
                "backendRefs": [{"group": POOL_GROUP, "kind": "InferencePool", "name": name}],
                "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
            }
        ],
    }
    assert made["Gateway", ""]["spec"] == {
        "gatewayClassName": "gke-l7-rilb",
        "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
    }
    target = {"group": POOL_GROUP, "kind": "InferencePool", "name": name}
    assert made["HealthCheckPolicy", ""]["spec"] == {
        "targetRef": target,
        "default": {
            "timeoutSec": 2,
            "checkIntervalSec": 2,
            "config": {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health", "port": 8000}},
        },
    }
    assert made["GCPBackendPolicy", ""]["spec"] == {
        "targetRef": target,
        "default": {"timeoutSec": 300, "logging": {"enabled": True}},
    }


@pytest.mark.parametrize(("engine", "known"), [("vllm", None), ("sglang", "sglang")])
def test_picker_scores_prefixes_queues_and_kv_caches(engine: str, known: str | None) -> None:
    made = gateway_of(GKE, service(engine=engine))
    config = yaml.safe_load(str(at(made["ConfigMap", "epp"], "data", "default-plugins.yaml")))
    assert (config["apiVersion"], config["kind"]) == ("llm-d.ai/v1alpha1", "EndpointPickerConfig")
    plugins = {plugin["type"]: plugin.get("parameters", {}) for plugin in config["plugins"]}
    assert plugins["core-metrics-extractor"].get("defaultEngine") == known
    (profile,) = config["schedulingProfiles"]
    weights = {row["pluginRef"]: row["weight"] for row in profile["plugins"]}
    assert weights == {
        "queue-scorer": 2,
        "kv-cache-utilization-scorer": 2,
        "prefix-cache-scorer": 3,
    }
    assert set(weights) <= set(plugins)


def test_picker_may_read_pool_and_pods_and_listens_where_the_pool_asks() -> None:
    made = gateway_of(GKE, service())
    pod = at(made["Deployment", "epp"], "spec", "template", "spec")
    container = at(pod, "containers", 0)
    assert at(container, "image") == "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"
    name = at(made["InferencePool", ""], "metadata", "name")
    assert f"--pool-name={name}" in str(at(container, "args"))
    assert at(container, "readinessProbe", "grpc") == {
        "port": 9003,
        "service": "inference-extension",
    }
    granted = {
        (group, resource)
        for rule in made["Role", "epp"]["rules"]  # type: ignore[union-attr]
        for group in rule["apiGroups"]  # type: ignore[index, call-overload, union-attr]
        for resource in rule["resources"]  # type: ignore[index, call-overload, union-attr]
    }
    assert {(POOL_GROUP, "inferencepools"), ("", "pods")} <= granted
    account = at(made["RoleBinding", "epp"], "subjects", 0, "name")
    assert account == at(pod, "serviceAccountName")
    assert at(made["Service", "epp"], "spec", "ports", 0, "port") == 9002


def test_cluster_and_network_can_have_an_internal_gateway() -> None:
    artefacts = render_artefacts(GKE, service(), WITH_GATEWAY)
    cluster = at(body_of(artefacts, "20-cluster.json"), "cluster")
    assert at(cluster, "networkConfig", "gatewayApiConfig") == {"channel": "CHANNEL_STANDARD"}
    assert at(cluster, "addonsConfig", "httpLoadBalancing") == {"disabled": False}
    subnet = body_of(artefacts, "10-proxies.json")
    assert (subnet["purpose"], subnet["role"]) == ("REGIONAL_MANAGED_PROXY", "ACTIVE")
    assert not any("REGIONAL_MANAGED_PROXY" in note for note in artefacts.notes)
    steps = [step.request for step in artefacts.steps]
    assert steps.index("10-proxies.json") < steps.index("20-cluster.json")


def test_note_names_the_subnet_that_an_existing_network_needs() -> None:
    artefacts = render_artefacts(GKE, service(), replace(WITH_GATEWAY, network="shared"))
    assert not any(file.name == "10-proxies.json" for file in artefacts.files)
    assert any("REGIONAL_MANAGED_PROXY" in note for note in artefacts.notes)


def test_gateway_ends_with_the_service() -> None:
    made = gateway_of(GKE, service())
    arguments = str(at(made["CronJob", "end"], "spec", "jobTemplate"))
    assert "gateways.gateway.networking.k8s.io/" in arguments
    assert "-epp'" in arguments
    assert "gateways" in str(made["Role", "end"]["rules"])


def test_other_clusters_install_the_resources_and_may_name_their_controller() -> None:
    blueprint = service("dgx-h100")
    artefacts = render_artefacts(KUBERNETES, blueprint, WITH_GATEWAY)
    commands = " ".join(step.command for step in artefacts.steps)
    assert "gateway-api/releases/download/v1.5.1/standard-install.yaml" in commands
    assert "gateway-api-inference-extension/releases/download/v1.5.0/v1-manifests.yaml" in commands
    made = objects(artefacts)
    assert at(made["Gateway", ""], "spec", "gatewayClassName") == "istio"
    assert ("DestinationRule", "epp") in made
    assert at(made["HTTPRoute", ""], "spec", "rules", 0, "timeouts") == {"request": "300s"}
    assert ("GCPBackendPolicy", "") not in made
    other = gateway_of(KUBERNETES, blueprint, replace(WITH_GATEWAY, gateway_class="kgateway"))
    assert at(other["Gateway", ""], "spec", "gatewayClassName") == "kgateway"
    assert ("DestinationRule", "epp") not in other


def test_replicas_of_several_machines_are_served_by_their_leaders() -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "service", "on-demand", 2)
    planned = blueprint.option.service
    assert planned is not None
    planned = replace(planned, autoscaling=replace(planned.autoscaling, max_replicas=2))
    blueprint = replace(blueprint, option=replace(blueprint.option, service=planned))
    made = gateway_of(GKE, blueprint)
    assert ("LeaderWorkerSet", "") in made
    assert at(made["InferencePool", ""], "spec", "selector", "matchLabels", "role") == "leader"


@pytest.mark.parametrize(
    ("blueprint", "why"),
    [
        (service(replicas=1), "one replica"),
        (service(engine="tensorrt-llm"), "vLLM and SGLang"),
        (blueprint_of("a3-megagpu-8g", "multi-node", "on-demand"), "of a service"),
    ],
)
def test_gateway_of_no_use_is_refused_with_the_reason(blueprint: Blueprint, why: str) -> None:
    for platform in (GKE, KUBERNETES):
        result = render(platform, blueprint, WITH_GATEWAY)
        assert isinstance(result, Unsuitable)
        assert why in result.why
        assert "without --gateway" in result.fix


def test_platform_without_gateways_refuses_the_flag() -> None:
    result = provision(service(), "compute-engine", WITH_GATEWAY, catalog())
    assert isinstance(result, Unsuitable)
    assert result.nearest == "gke"


def test_plan_that_counts_on_prefix_hits_asks_for_the_gateway() -> None:
    blueprint = service()
    traffic = Traffic(prefix_hit_ratio=0.6)
    blueprint = replace(blueprint, workload=replace(blueprint.workload, traffic=traffic))
    notes = render_artefacts(GKE, blueprint).notes
    assert any("hit ratio of 60%" in note and "--gateway" in note for note in notes)
    notes = render_artefacts(GKE, blueprint, WITH_GATEWAY).notes
    assert not any("hit ratio" in note for note in notes)


def test_terraform_has_the_gateway_too() -> None:
    settings = replace(WITH_GATEWAY, format="terraform")
    blueprint = service()
    artefacts = with_extra_files(
        render_artefacts(GKE, blueprint, settings), resolve_settings(blueprint, settings)
    )
    text = "".join(file.text for file in artefacts.extra_files)
    assert "gateway_api_config" in text
    assert "REGIONAL_MANAGED_PROXY" in text
