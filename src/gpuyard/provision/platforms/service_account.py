"""The identity of the machines, and the commands that grant it what a deployment needs."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.trainers import trainer_of
from gpuyard.provision.launch.training_run import GATED, hub_name
from gpuyard.provision.platform import DeployStep
from gpuyard.provision.shell_text import ShellText, shell


def is_gated(blueprint: Blueprint, settings: ResolvedSettings) -> bool:
    """Return whether what a server or trainer downloads needs a token."""
    service, model = blueprint.option.service, blueprint.workload.model
    if service is not None:
        return service.engine.gated
    if model is None or trainer_of(blueprint, settings) is None:
        return False
    return hub_name(model).startswith(GATED)


def account_member(settings: ResolvedSettings) -> ShellText:
    """Return the machines' service account as a member; by default the project's, as a command."""
    if settings.requested.service_account:
        return shell("serviceAccount:{s.requested.service_account}", s=settings)
    return shell(
        "serviceAccount:\"$(gcloud projects describe {s.project} --format='value(projectNumber)')\""
        "-compute@developer.gserviceaccount.com",
        s=settings,
    )


def project_grant(settings: ResolvedSettings, what: str, role: str) -> DeployStep:
    """Return the step that grants the machines a role in the project."""
    return DeployStep(
        what=f"Allow the machines to {what}",
        command=shell(
            "gcloud projects add-iam-policy-binding {s.project} --condition=None "
            "--role={role} --member={member}",
            s=settings,
            role=role,
            member=account_member(settings),
        ),
    )


def secret_grant(settings: ResolvedSettings) -> DeployStep:
    """Return the step that lets the machines read the access token of gated models."""
    return DeployStep(
        what=f"Allow the machines to read the secret {settings.requested.secret}",
        command=shell(
            "gcloud secrets add-iam-policy-binding {s.requested.secret} --project={s.project} "
            "--role=roles/secretmanager.secretAccessor --member={member}",
            s=settings,
            member=account_member(settings),
        ),
    )


def bucket_grant(settings: ResolvedSettings) -> DeployStep:
    """Return the step that lets the machines write the bucket."""
    return DeployStep(
        what=f"Allow the machines to write gs://{settings.bucket}",
        command=shell(
            "gcloud storage buckets add-iam-policy-binding gs://{s.bucket} "
            "--role=roles/storage.objectUser --member={member}",
            s=settings,
            member=account_member(settings),
        ),
    )
