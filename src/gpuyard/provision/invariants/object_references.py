"""Invariants between Kubernetes objects: services, autoscalers, claims, secrets and ports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.errors import Finding, closest_match
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.pods import PodTemplate
from gpuyard.provision.invariants.sources import PODS
from gpuyard.provision.resource_quantity import quantity

KUBERNETES = "Kubernetes API v1.37"
# What starts a server on a port: --port 8000, or the variable PORT.
PORT_FLAG = re.compile(r"(?<![\w-])--port\b|'PORT'")
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@invariant("service-pods", applies_to="Service", source=KUBERNETES)
def service_selects_pods(bundle: LintBundle) -> Iterator[Finding]:
    """A Service selects pods of the files, if the files have pods in its namespace."""
    for service in bundle.of_kind("Service"):
        selector = service.at("spec", "selector")
        pods = [pod for pod in bundle.pods if _namespace(pod.owner.root) == _namespace(service)]
        if not selector.pairs or not pods or any(_selects(selector, pod) for pod in pods):
            continue
        yield selector.warning(
            "no pod of the files has these labels: the service has no endpoints",
            "select labels of the pod template",
        )


def _namespace(view: ValueView) -> str:
    return view.at("metadata", "namespace").text or "default"


def _selects(selector: ValueView, pod: PodTemplate) -> bool:
    labels = {key: view.text for key, view in pod.template.at("metadata", "labels").pairs}
    owner = pod.owner.root.at("metadata", "name").text
    for key, view in selector.pairs:
        if key in labels:
            if labels[key] != view.text:
                return False
        elif key.endswith("job-name"):  # set by the job controller
            return view.text in (owner, *_jobs_of(pod))
        elif "/" not in key:
            return False
        elif key.endswith(("/name", "/jobset-name")) and owner != view.text:
            return False  # controllers add their own labels; these have the owner's name
    return True


def _jobs_of(pod: PodTemplate) -> Iterator[str]:
    """Names of the jobs that a JobSet creates."""
    root = pod.owner.root
    for job in root.at("spec", "replicatedJobs").items:
        for index in range(int(job["replicas"].number or 1)):
            yield f"{root.at('metadata', 'name').text}-{job['name'].text}-{index}"


@invariant("scale-target", applies_to="HorizontalPodAutoscaler", source=KUBERNETES)
def autoscaler_scales_an_object(bundle: LintBundle) -> Iterator[Finding]:
    """The object that an autoscaler names is in the files, if they have any of its kind."""
    for scaler in bundle.kubernetes("autoscaling", "HorizontalPodAutoscaler"):
        target = scaler.at("spec", "scaleTargetRef")
        names = _names(bundle, target["kind"].text)
        if names and target["name"].text not in names:
            yield _unknown(target["name"], target["kind"].text, names)


@invariant("mounted-objects", applies_to=PODS, source=KUBERNETES)
def claims_and_configs_exist(bundle: LintBundle) -> Iterator[Finding]:
    """Claims and ConfigMaps that a pod names are in the files, if they have any of the kind."""
    claims = _names(bundle, "ResourceClaimTemplate")
    claims += _channels(bundle) if claims else []
    kinds = {
        "PersistentVolumeClaim": _names(bundle, "PersistentVolumeClaim"),
        "ConfigMap": _names(bundle, "ConfigMap"),
    }
    for pod in bundle.pods:
        for claim in pod.spec["resourceClaims"].items:
            name = claim["resourceClaimTemplateName"]
            if claims and name.text and name.text not in claims:
                yield _unknown(name, "ResourceClaimTemplate", claims)
        for volume in pod.spec["volumes"].items:
            for kind, view in (
                ("PersistentVolumeClaim", volume.at("persistentVolumeClaim", "claimName")),
                ("ConfigMap", volume.at("configMap", "name")),
            ):
                names = kinds[kind]
                optional = volume.at("configMap", "optional").is_true
                if names and view.text and view.text not in names and not optional:
                    finding = _unknown(view, kind, names)
                    yield view.warning(finding.what, finding.fix)


def _names(bundle: LintBundle, kind: str) -> list[str]:
    return [
        row.name for row in bundle.documents if row.kind == "kubernetes" and row.kind_name == kind
    ]


def _channels(bundle: LintBundle) -> Iterator[str]:
    for domain in bundle.of_kind("ComputeDomain"):
        yield domain.at("spec", "channel", "resourceClaimTemplate", "name").text


def _unknown(view: ValueView, kind: str, names: list[str]) -> Finding:
    match = closest_match(view.text, names)
    fix = f'use "{match}"' if match else f"use {', '.join(names)}, or add it"
    return view.error(f'no {kind} named "{view.text}"', fix)


@invariant("ports", applies_to=f"{PODS}; Service", source=KUBERNETES)
def ports_are_served(bundle: LintBundle) -> Iterator[Finding]:
    """Probes and Services use ports that the pod declares or names in a command."""
    for pod in bundle.pods:
        declared = [port for box in pod.containers for port in _ports(box)]
        text = _text(pod)
        for box in pod.containers:
            for probe in PROBES:
                for action in ("httpGet", "tcpSocket", "grpc"):
                    port = box.at(probe, action, "port")
                    is_named = port.value in declared or str(port.value) in text
                    if (declared or PORT_FLAG.search(text)) and port.is_set and not is_named:
                        yield port.error(
                            f"no container declares port {port.value}: the probe never passes",
                            f"use {', '.join(map(str, declared)) or 'the port of its command'}",
                        )
    for service in bundle.of_kind("Service"):
        selector = service.at("spec", "selector")
        pods = [pod for pod in bundle.pods if selector.pairs and _selects(selector, pod)]
        served = [port for pod in pods for box in pod.containers for port in _ports(box)]
        for row in service.at("spec", "ports").items:
            target = row["targetPort"] if row["targetPort"].is_set else row["port"]
            is_named = any(str(target.value) in _text(pod) for pod in pods)
            has_flag = any(PORT_FLAG.search(_text(pod)) for pod in pods)
            if (served or has_flag) and target.value not in served and not is_named:
                yield target.warning(
                    f"no container of its pods declares port {target.value}",
                    f"use {', '.join(dict.fromkeys(map(str, served))) or 'that of the command'}",
                )


def _text(pod: PodTemplate) -> str:
    """Commands, arguments and environment, which may name a port that no container declares."""
    return "\n".join(
        str(view.value)
        for box in pod.containers
        for view in (box["command"], box["args"], box["env"])
        if view.is_set
    )


def _ports(box: ValueView) -> list[object]:
    ports: list[object] = []
    for row in box["ports"].items:
        ports += [row["containerPort"].value]
        ports += [row["name"].value] if row["name"].text else []
    return ports


@invariant("device-requests", applies_to=PODS, source=KUBERNETES)
def devices_are_requested_once(bundle: LintBundle) -> Iterator[Finding]:
    """Requests and limits of a device are equal: devices are not overcommitted."""
    for pod in bundle.pods:
        for box in pod.containers:
            for name, request in box.at("resources", "requests").pairs:
                limit = box.at("resources", "limits", name)
                is_device = "/" in name and not name.startswith("kubernetes.io/")
                if is_device and limit.is_set and quantity(limit.value) != quantity(request.value):
                    yield limit.error(
                        f"{name}: the limit is {limit.value}, the request {request.value}",
                        "write the same number, or the limit alone",
                    )
