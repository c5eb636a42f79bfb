"""Inference gateway: routes each request to the replica that has its prefix in the KV cache.

A Gateway and an HTTPRoute send the requests to an InferencePool; for each one the load balancer
asks the endpoint picker, which scores the replicas by prefix, queue and KV-cache utilisation.
The objects are those of the charts llm-d-router-gateway and routerlib of the release below.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.replicas import machines_per_replica, service_of
from gpuyard.provision.platforms.manifests.nodes import PodNodes
from gpuyard.provision.platforms.manifests.pods import metadata
from gpuyard.provision.platforms.manifests.text import Object

# The endpoint picker moved there from the Gateway API Inference Extension after its v1.5
# (github.com/llm-d/llm-d-router, 2026-06-23).
ROUTER = "v0.9.0"
IMAGE = f"ghcr.io/llm-d/llm-d-router-endpoint-picker:{ROUTER}"
# Custom resources that this release is deployed with (its deploy/components/crds-*).
GATEWAY_API = "v1.5.1"
INFERENCE_EXTENSION = "v1.5.0"
GKE_CLASS = "gke-l7-rilb"
ISTIO_CLASS = "istio"
GATEWAY_GROUP = "gateway.networking.k8s.io"
POOL_GROUP = "inference.networking.k8s.io"
POOL_PORT, HEALTH_PORT, METRICS_PORT = 9002, 9003, 9090
PLUGINS = "default-plugins.yaml"
# Scorers and their weights in the chart's default profile.
SCORERS = {"queue-scorer": 2, "kv-cache-utilization-scorer": 2, "prefix-cache-scorer": 3}
TIMEOUT_S = 300  # of a request, as in the chart
# Metrics that the endpoint picker reads, by the plan's engine.
ENGINES = {"vllm": "vllm", "vllm-tpu": "vllm", "vllm-cpu": "vllm", "sglang": "sglang"}


def gateway_obstacle(blueprint: Blueprint) -> str:
    """Return why an inference gateway is of no use to a blueprint; empty if it is."""
    if blueprint.shape != "service":
        return "an inference gateway routes the requests of a service"
    service = service_of(blueprint)
    if service.prefill is not None:
        return "the router of the prefill and decode pools already chooses the replicas"
    if service.engine.name not in ENGINES:
        return (
            f"the endpoint picker reads the metrics of vLLM and SGLang, not {service.engine.name}"
        )
    if max(service.replicas, service.autoscaling.max_replicas) < 2:
        return "the service has one replica: there is nothing to choose"
    return ""


def gateway_class(settings: ResolvedSettings, nodes: PodNodes) -> str:
    """Return the GatewayClass: the requested one, or the one of GKE or Istio."""
    return settings.requested.gateway_class or (ISTIO_CLASS if nodes.is_onprem else GKE_CLASS)


def gateway_objects(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes
) -> tuple[Object, ...]:
    """Return gateway, route, pool and endpoint picker."""
    name = gateway_class(settings, nodes)
    is_gke = name.startswith("gke-")
    return (
        *_picker_account(settings),
        _picker_config(settings, ENGINES[launch.framework]),
        _picker(settings),
        _picker_address(settings),
        *(() if nodes.is_onprem else (_picker_metrics(settings),)),
        _pool(settings, launch, has_leader=machines_per_replica(blueprint) > 1),
        *(_gke_policies(settings, launch) if is_gke else ()),
        *((_istio_rule(settings),) if name == ISTIO_CLASS else ()),
        _gateway(settings, name),
        _route(settings, has_timeout=not is_gke),
    )


def gateway_notes(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    nodes: PodNodes,
    *,
    with_proxies: bool = False,
) -> Iterator[str]:
    """Yield what to know about the gateway, or why the plan needs one.

    `with_proxies`: the rendered network has a proxy-only subnet.
    """
    if not settings.requested.gateway:
        yield from _missing_gateway(blueprint)
        return
    name = gateway_class(settings, nodes)
    address = "-o jsonpath='{.status.addresses[0].value}'"
    yield (
        "Send requests to the Gateway, which chooses the replica by prefix, queue and KV cache: "
        f"kubectl get gateway {settings.name} -n {settings.requested.namespace} {address}. "
        "The Service remains, without this choice."
    )
    is_gke = name.startswith("gke-")
    policy = "gcpbackendpolicy" if is_gke else "httproute"
    yield (
        f"The Gateway ends a request after {TIMEOUT_S} s: if answers take longer, raise the "
        f"timeout with kubectl edit {policy} {settings.name} or in a Kustomize overlay."
    )
    if is_gke:
        yield (
            f"The GatewayClass {name} needs the API networkservices.googleapis.com, the Gateway "
            "API of the cluster, and InferencePool, which GKE 1.34.0-gke.1626000 and newer "
            f"install; to check: kubectl api-resources --api-group={POOL_GROUP}."
        )
        if not with_proxies:
            yield (
                f"The VPC needs a proxy-only subnet in {settings.region}: gcloud compute networks "
                "subnets create proxies --purpose=REGIONAL_MANAGED_PROXY --role=ACTIVE "
                f"--region={settings.region} --network=VPC --range=RANGE."
            )
    else:
        yield (
            f"The GatewayClass {name} needs a controller that supports InferencePool "
            f"({POOL_GROUP}/v1), such as Istio with ENABLE_GATEWAY_API_INFERENCE_EXTENSION=true; "
            "name another with --gateway-class."
        )


def _missing_gateway(blueprint: Blueprint) -> Iterator[str]:
    traffic = blueprint.workload.traffic
    if traffic is None or traffic.prefix_hit_ratio <= 0.0 or gateway_obstacle(blueprint):
        return
    yield (
        f"The plan counts on a prefix-cache hit ratio of {traffic.prefix_hit_ratio:.0%}, and the "
        "Service spreads requests over the replicas without regard to prefixes: render with "
        "--gateway."
    )


def install_commands(nodes: PodNodes) -> Iterator[tuple[str, str]]:
    """Yield what installs the custom resources of the gateway; GKE installs its own."""
    releases = "https://github.com/kubernetes-sigs"
    apply = "kubectl apply --server-side -f"
    if nodes.is_onprem:
        address = f"{releases}/gateway-api/releases/download/{GATEWAY_API}/standard-install.yaml"
        yield f"Install the Gateway API {GATEWAY_API}", f"{apply} {address}"
    address = (
        f"{releases}/gateway-api-inference-extension/releases/download/"
        f"{INFERENCE_EXTENSION}/v1-manifests.yaml"
    )
    what = f"Install InferencePool of the Gateway API Inference Extension {INFERENCE_EXTENSION}"
    if not nodes.is_onprem:
        # GKE installs it from 1.34.0-gke.1626000 on.
        what += " (GKE 1.34 and newer: skip this step)"
    yield what, f"{apply} {address}"


def _picker_name(settings: ResolvedSettings) -> str:
    return f"{settings.name}-epp"


def _picker_account(settings: ResolvedSettings) -> tuple[Object, ...]:
    name = _picker_name(settings)
    meta = metadata(settings, name)
    verbs = ["get", "watch", "list"]
    optional = ["inferenceobjectives", "inferencemodelrewrites"]
    resources = {
        POOL_GROUP: ["inferencepools"],
        "llm-d.ai": optional,
        "inference.networking.x-k8s.io": optional,  # the same, before they moved
        "": ["pods"],
    }
    rules: list[Object] = [
        {"apiGroups": [group], "resources": [*kinds], "verbs": [*verbs]}
        for group, kinds in resources.items()
    ]
    subject: Object = {
        "kind": "ServiceAccount",
        "name": name,
        "namespace": settings.requested.namespace,
    }
    role: Object = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    version = "rbac.authorization.k8s.io/v1"
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": version, "kind": "Role", "metadata": meta, "rules": [*rules]},
        {
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": role,
            "subjects": [subject],
        },
    )


def _picker_config(settings: ResolvedSettings, engine: str) -> Object:
    extractor: Object = {"type": "core-metrics-extractor"}
    if engine != "vllm":
        extractor["parameters"] = {"defaultEngine": engine}
    source: Object = {
        "type": "metrics-data-source",
        "parameters": {"scheme": "http", "path": "/metrics", "insecureSkipVerify": True},
    }
    scorers: list[Object] = [{"type": name} for name in SCORERS]
    config: Object = {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [*scorers, source, extractor],
        "schedulingProfiles": [
            {
                "name": "default",
                "plugins": [
                    {"pluginRef": name, "weight": weight} for name, weight in SCORERS.items()
                ],
            }
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(settings, _picker_name(settings)),
        "data": {PLUGINS: yaml.safe_dump(config, sort_keys=False)},
    }


def _picker(settings: ResolvedSettings) -> Object:
    # One replica: the index of prefixes is in its memory. Its health is asked every two seconds,
    # because without it (FailOpen) requests go to any replica.
    name = _picker_name(settings)
    probe: Object = {"grpc": {"port": HEALTH_PORT, "service": "inference-extension"}}
    arguments = {
        "pool-name": settings.name,
        "pool-namespace": settings.requested.namespace,
        "pool-group": POOL_GROUP,
        "zap-encoder": "json",
        "config-file": f"/config/{PLUGINS}",
        "grpc-health-port": str(HEALTH_PORT),
        "tracing": "false",
        "metrics-endpoint-auth": "false",  # like the metrics of the engines
    }
    container: Object = {
        "name": "epp",
        "image": IMAGE,
        "args": [f"--{flag}={value}" for flag, value in arguments.items()],
        "resources": {
            "requests": {"cpu": "8", "memory": "8Gi"},
            "limits": {"memory": "16Gi"},
        },
        "ports": [
            {"name": "grpc", "containerPort": POOL_PORT},
            {"name": "grpc-health", "containerPort": HEALTH_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "livenessProbe": {**probe, "initialDelaySeconds": 5, "periodSeconds": 10},
        "readinessProbe": {**probe, "periodSeconds": 2},
        "env": [
            {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}"}}}
            for variable, field in (("NAMESPACE", "namespace"), ("POD_NAME", "name"))
        ],
        "volumeMounts": [{"name": "plugins-config-volume", "mountPath": "/config"}],
    }
    template: Object = {
        "metadata": {"labels": {**settings.labels, "app": name}},
        "spec": {
            "serviceAccountName": name,
            "terminationGracePeriodSeconds": 130,
            "containers": [container],
            "volumes": [{"name": "plugins-config-volume", "configMap": {"name": name}}],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(settings, name),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


def _picker_address(settings: ResolvedSettings) -> Object:
    name = _picker_name(settings)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(settings, name),
        "spec": {
            "type": "ClusterIP",
            "selector": {"app": name},
            "ports": [
                {"name": "grpc-ext-proc", "protocol": "TCP", "port": POOL_PORT},
                {"name": "http-metrics", "protocol": "TCP", "port": METRICS_PORT},
            ],
        },
    }


def _picker_metrics(settings: ResolvedSettings) -> Object:
    name = _picker_name(settings)
    return {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": "PodMonitoring",
        "metadata": metadata(settings, name),
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "endpoints": [{"port": "metrics", "interval": "10s", "path": "/metrics"}],
        },
    }


def _pool(settings: ResolvedSettings, launch: Launch, *, has_leader: bool) -> Object:
    labels: Object = {"app": settings.name, **({"role": "leader"} if has_leader else {})}
    return {
        "apiVersion": f"{POOL_GROUP}/v1",
        "kind": "InferencePool",
        "metadata": metadata(settings),
        "spec": {
            "targetPorts": [{"number": launch.port}],
            "selector": {"matchLabels": labels},
            "endpointPickerRef": {
                "name": _picker_name(settings),
                "port": {"number": POOL_PORT},
                "failureMode": "FailOpen",
            },
        },
    }


def _gke_policies(settings: ResolvedSettings, launch: Launch) -> tuple[Object, ...]:
    target: Object = {"group": POOL_GROUP, "kind": "InferencePool", "name": settings.name}
    check: Object = {
        "timeoutSec": 2,
        "checkIntervalSec": 2,
        "config": {
            "type": "HTTP",
            "httpHealthCheck": {"requestPath": launch.health, "port": launch.port},
        },
    }
    backend: Object = {"timeoutSec": TIMEOUT_S, "logging": {"enabled": True}}
    return tuple(
        {
            "apiVersion": "networking.gke.io/v1",
            "kind": kind,
            "metadata": metadata(settings),
            "spec": {"targetRef": target, "default": policy},
        }
        for kind, policy in (("HealthCheckPolicy", check), ("GCPBackendPolicy", backend))
    )


def _istio_rule(settings: ResolvedSettings) -> Object:
    # The endpoint picker serves TLS with a certificate that it signs itself.
    name = _picker_name(settings)
    return {
        "apiVersion": "networking.istio.io/v1beta1",
        "kind": "DestinationRule",
        "metadata": metadata(settings, name),
        "spec": {
            "host": f"{name}.{settings.requested.namespace}.svc.cluster.local",
            "trafficPolicy": {"tls": {"mode": "SIMPLE", "insecureSkipVerify": True}},
        },
    }


def _gateway(settings: ResolvedSettings, name: str) -> Object:
    return {
        "apiVersion": f"{GATEWAY_GROUP}/v1",
        "kind": "Gateway",
        "metadata": metadata(settings),
        "spec": {
            "gatewayClassName": name,
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
        },
    }


def _route(settings: ResolvedSettings, *, has_timeout: bool) -> Object:
    rule: Object = {
        "backendRefs": [{"group": POOL_GROUP, "kind": "InferencePool", "name": settings.name}],
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
    }
    if has_timeout:  # GKE takes it from the GCPBackendPolicy
        rule["timeouts"] = {"request": f"{TIMEOUT_S}s"}
    parent: Object = {"group": GATEWAY_GROUP, "kind": "Gateway", "name": settings.name}
    return {
        "apiVersion": f"{GATEWAY_GROUP}/v1",
        "kind": "HTTPRoute",
        "metadata": metadata(settings),
        "spec": {"parentRefs": [parent], "rules": [rule]},
    }
