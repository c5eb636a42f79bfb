"""Cloud Run: services and jobs with one GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.cloud_run.cloud_run_platform import CLOUD_RUN

from .rendering import SETTINGS, at, blueprint_of, body_of, render, render_artefacts

SERVICE = blueprint_of("g2-standard-8", "service", "on-demand")
JOB = blueprint_of("g4-standard-48", "single-node", "on-demand")
HOUR_S = 3600.0


def test_cloud_run_service_is_internal_bounded_and_probed() -> None:
    body = body_of(render_artefacts(CLOUD_RUN, SERVICE), "50-service.json")
    assert body["ingress"] == "INGRESS_TRAFFIC_INTERNAL_ONLY"
    template = at(body, "template")
    assert at(template, "nodeSelector", "accelerator") == "nvidia-l4"
    assert at(template, "scaling") == {"minInstanceCount": 1, "maxInstanceCount": 4}
    assert at(template, "maxInstanceRequestConcurrency") == 48
    box = at(template, "containers", 0)
    assert at(box, "resources", "cpuIdle") is False
    assert at(box, "resources", "limits") == {
        "cpu": "4",
        "memory": "16Gi",
        "nvidia.com/gpu": "1",
    }  # as priced in the plan
    probe = at(box, "startupProbe")
    assert at(probe, "httpGet") == {"path": "/health", "port": 8000}
    for key in ("initialDelaySeconds", "periodSeconds"):
        assert int(str(at(probe, key))) <= 240
    assert int(str(at(probe, "timeoutSeconds"))) < int(str(at(probe, "periodSeconds")))


def test_cloud_run_scales_to_zero_when_planned_serverless() -> None:
    service = SERVICE.option.service
    assert service is not None
    idle = replace(
        SERVICE, option=replace(SERVICE.option, service=replace(service, serverless=True))
    )
    body = body_of(render_artefacts(CLOUD_RUN, idle), "50-service.json")
    assert at(body, "template", "scaling", "minInstanceCount") == 0


def test_cloud_run_stores_weights_in_bucket_and_token_in_secret() -> None:
    result = render_artefacts(CLOUD_RUN, SERVICE)
    template = at(body_of(result, "50-service.json"), "template")
    bucket = body_of(result, "05-bucket.json")["name"]
    assert at(template, "volumes", 0, "gcs", "bucket") == bucket
    env = at(template, "containers", 0, "env")
    assert {"name": "HF_HOME", "value": "/mnt/models/hf"} in env  # type: ignore[operator]
    assert at(template, "containers", 0, "volumeMounts", 0, "mountPath") == "/mnt/models"
    assert any("gcloud secrets create hf-token" in step.command for step in result.steps)
    open_model = render_artefacts(CLOUD_RUN, SERVICE, replace(SETTINGS, secret=""))
    assert "HF_TOKEN" not in str(
        at(body_of(open_model, "50-service.json"), "template", "containers", 0, "env")
    )
    assert not any("secrets" in step.command for step in open_model.steps)


@pytest.mark.parametrize(
    ("hours", "timeout", "retries", "stage"),
    [
        (1, "3600s", 1, None),
        (12, "43200s", 1, "BETA"),
        (30, "43200s", 2, "BETA"),
        (132, "43200s", 10, "BETA"),
    ],
)
def test_cloud_run_job_attempts_add_up_to_ttl(
    hours: int, timeout: str, retries: int, stage: str | None
) -> None:
    body = body_of(
        render_artefacts(CLOUD_RUN, JOB, replace(SETTINGS, ttl_s=hours * HOUR_S)), "50-job.json"
    )
    task = at(body, "template", "template")
    assert (at(task, "timeout"), at(task, "maxRetries")) == (timeout, retries)
    assert body.get("launchStage") == stage
    assert at(task, "nodeSelector", "accelerator") == "nvidia-rtx-pro-6000"
    volumes = at(task, "volumes")
    assert isinstance(volumes, list)
    assert [at(row, "name") for row in volumes] == ["checkpoints", "data"]
    assert at(volumes[1], "gcs") == {
        "bucket": "sample-data",
        "readOnly": True,
        "mountOptions": ["only-dir=tokens"],
    }


def test_cloud_run_job_is_run_after_creation() -> None:
    result = render_artefacts(CLOUD_RUN, JOB)
    assert [file.name for file in result.files if file.name[0].isdigit()] == [
        "05-bucket.json",
        "50-job.json",
        "60-run.json",
    ]
    assert ":run" in result.steps[-1].command
    assert "executions cancel" in result.steps[-1].undo


def test_cloud_run_is_unsuitable_for_larger_workloads() -> None:
    several = render(CLOUD_RUN, blueprint_of("g2-standard-8", "multi-node", "on-demand"), SETTINGS)
    large = render(CLOUD_RUN, blueprint_of("g2-standard-96", "service", "on-demand"), SETTINGS)
    long = render(CLOUD_RUN, JOB, replace(SETTINGS, ttl_s=140 * HOUR_S))
    own = render(CLOUD_RUN, blueprint_of("hgx-h100", "single-node"), SETTINGS)
    for result, word in ((several, "no network"), (large, "per instance"), (long, "retries")):
        assert isinstance(result, Unsuitable)
        assert word in result.why
        assert result.nearest == "gke"
    assert isinstance(own, Unsuitable)
    assert own.nearest != "gke"


def test_cloud_run_notes_price_and_region_limits() -> None:
    result = render_artefacts(
        CLOUD_RUN,
        blueprint_of("g2-standard-8", "service", "spot"),
        replace(SETTINGS, region="us-west8"),
    )
    assert any("estimate for spot" in note for note in result.notes)
    assert any("us-west8" in note for note in result.notes)
