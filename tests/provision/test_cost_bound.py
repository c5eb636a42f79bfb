"""The maximum cost is what the files enforce, or there is none."""

from __future__ import annotations

import json
from dataclasses import replace

import yaml

from gpuyard.provision.cost_bound import cost_bound_of
from gpuyard.provision.deployment_settings import resolve_settings
from gpuyard.provision.platforms import platform_named

from .platforms.rendering import SETTINGS, blueprint_of, body_of, file_of, render_artefacts


def test_gke_service_is_deleted_at_its_expiry_and_its_nodes_have_no_run_duration() -> None:
    platform = platform_named("gke")
    assert platform is not None
    blueprint = blueprint_of("a3-ultragpu-8g", "service", "on-demand")
    artefacts = render_artefacts(platform, blueprint)
    objects = list(yaml.safe_load_all(file_of(artefacts, "50-service.yaml").text))
    (job,) = [item for item in objects if item["kind"] == "CronJob"]
    arguments = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    (service,) = [item for item in objects if item["kind"] == "Deployment"]
    assert f"deployments.apps/{service['metadata']['name']}" in arguments
    assert any(text.startswith("horizontalpodautoscalers") for text in arguments)
    # The rendering of the tests is at 2027-01-15 08:00 UTC, and services live for a week.
    assert job["spec"]["schedule"] == "0 8 22 1 *"
    pool = json.dumps(body_of(artefacts, "30-pool-work.json"))
    assert "maxRunDuration" not in pool
    assert artefacts.unbounded == ""


def test_services_without_an_end_have_no_maximum_cost() -> None:
    blueprint = blueprint_of("g2-standard-8", "service", "on-demand")
    settings = resolve_settings(blueprint, SETTINGS)
    for name in ("cloud-run", "vertex-ai"):
        platform = platform_named(name)
        assert platform is not None
        artefacts = render_artefacts(platform, blueprint)
        assert artefacts.unbounded
        bound = cost_bound_of(blueprint, settings, artefacts.unbounded)
        assert bound.max_usd is None
        assert bound.usd_per_hour == 20.0


def test_compute_engine_service_ends_at_a_fixed_time() -> None:
    platform = platform_named("compute-engine")
    assert platform is not None
    blueprint = blueprint_of("g2-standard-8", "service", "on-demand")
    template = json.dumps(body_of(render_artefacts(platform, blueprint), "40-template.json"))
    assert '"terminationTime": "2027-01-22T08:00:00Z"' in template
    undated = render_artefacts(platform, blueprint, replace(SETTINGS, rendered_s=0.0))
    assert undated.unbounded
