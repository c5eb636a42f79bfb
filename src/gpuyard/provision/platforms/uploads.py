"""Deployment steps that copy local files to the bucket as soon as the bucket exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.job import DATA_FOLDER, is_local_data
from gpuyard.provision.launch.triton import upload_steps
from gpuyard.provision.platform import DeployStep
from gpuyard.provision.platforms.requests import Request, request_steps
from gpuyard.provision.shell_text import shell


def steps_with_uploads(
    blueprint: Blueprint, settings: ResolvedSettings, requests: Sequence[Request]
) -> tuple[DeployStep, ...]:
    """Return the steps of the requests, with the uploads after their bucket."""
    steps = request_steps(requests)
    count = sum(request.method == "storage.buckets.insert" for request in requests)
    return (*steps[:count], *_uploads(blueprint, settings), *steps[count:])


def _uploads(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[DeployStep]:
    service, data = blueprint.option.service, blueprint.workload.data
    if service is not None:
        yield from upload_steps(blueprint, settings, service.engine)
    elif data is not None and is_local_data(blueprint):
        yield DeployStep(
            what=f"Copy the dataset from {data.location} to the bucket",
            command=shell(
                "gcloud storage rsync --recursive {source} gs://{s.bucket}/{folder}",
                source=data.location,
                s=settings,
                folder=DATA_FOLDER,
            ),
        )
