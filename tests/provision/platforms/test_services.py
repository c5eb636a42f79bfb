"""Services: planned size, scaling metrics, tokens of gated models."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.provision.platforms.cloud_run.cloud_run_platform import CLOUD_RUN
from gpuyard.provision.platforms.compute_engine.compute_engine_platform import COMPUTE_ENGINE
from gpuyard.provision.platforms.gke.gke_platform import GKE

from .rendering import blueprint_of, body_of, file_of, of_machines, render_artefacts


def test_service_starts_with_the_planned_replicas_and_scales_on_its_queue() -> None:
    blueprint = of_machines(blueprint_of("g2-standard-8", "service", "on-demand"), 3)
    service = blueprint.option.service
    assert service is not None
    option = replace(blueprint.option, service=replace(service, replicas=3))
    blueprint = replace(blueprint, option=option)
    body = body_of(render_artefacts(COMPUTE_ENGINE, blueprint), "50-group.json")
    assert body["targetSize"] == 3
    text = file_of(render_artefacts(GKE, blueprint), "50-service.yaml").text
    assert "\n  replicas: 3\n" in text
    assert "vllm:num_requests_running" in text
    assert "vllm:num_requests_waiting" in text


def test_gated_weights_need_a_secret_that_is_stored_and_readable() -> None:
    blueprint = blueprint_of("g2-standard-8", "service", "on-demand")
    service = blueprint.option.service
    assert service is not None
    engine = replace(service.engine, gated=True)
    option = replace(blueprint.option, service=replace(service, engine=engine))
    gated = replace(blueprint, option=option)
    artefacts = render_artefacts(GKE, gated)
    assert "optional: true" not in file_of(artefacts, "50-service.yaml").text
    commands = [step.command for step in artefacts.steps]
    assert any("create secret generic hf-token" in command for command in commands)
    assert any("roles/monitoring.viewer" in command for command in commands)
    on_cloud_run = [step.command for step in render_artefacts(CLOUD_RUN, gated).steps]
    grant = next(i for i, text in enumerate(on_cloud_run) if "secretAccessor" in text)
    deploy = next(i for i, text in enumerate(on_cloud_run) if "50-service.json" in text)
    assert grant < deploy


def test_shared_memory_is_at_most_half_of_the_machine() -> None:
    text = file_of(
        render_artefacts(GKE, blueprint_of("g2-standard-4", "service", "on-demand")),
        "50-service.yaml",
    ).text
    assert "sizeLimit: '7Gi'" in text  # of 16 GB


def test_nodes_are_not_upgraded_before_the_ttl() -> None:
    cluster = body_of(
        render_artefacts(GKE, blueprint_of("a3-megagpu-8g", "multi-node", "on-demand")),
        "20-cluster.json",
    )["cluster"]
    assert isinstance(cluster, dict)
    assert "NO_MINOR_OR_NODE_UPGRADES" in str(cluster["maintenancePolicy"])
