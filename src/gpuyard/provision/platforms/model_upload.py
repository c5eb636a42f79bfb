"""Deployment steps that copy an exported model to its bucket as soon as the bucket exists."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.triton import upload_steps
from gpuyard.provision.platform import DeployStep
from gpuyard.provision.platforms.requests import Request, request_steps


def steps_with_upload(
    blueprint: Blueprint, settings: ResolvedSettings, requests: Sequence[Request]
) -> tuple[DeployStep, ...]:
    """Return the steps of the requests, with the upload of the model after its bucket."""
    steps = request_steps(requests)
    service = blueprint.option.service
    if service is None:
        return steps
    count = sum(request.method == "storage.buckets.insert" for request in requests)
    upload = upload_steps(blueprint, settings, service.engine)
    return (*steps[:count], *upload, *steps[count:])
