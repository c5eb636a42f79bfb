"""Other forms of rendered files that teams merge: Terraform, Kustomize, xpk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.extra_names import KUSTOMIZATION
from gpuyard.provision.platform import Artefacts
from gpuyard.provision.platforms.manifests.text import manifest
from gpuyard.provision.terraform.module import terraform_artefacts


def with_extra_files(artefacts: Artefacts, settings: ResolvedSettings) -> Artefacts:
    """Return the artefacts with a kustomization and, if requested, a Terraform module."""
    artefacts = replace(artefacts, extra_files=(*artefacts.extra_files, *_kustomization(artefacts)))
    if settings.requested.format == "terraform":
        return terraform_artefacts(artefacts, settings)
    return artefacts


def _kustomization(artefacts: Artefacts) -> Iterator[Artefact]:
    manifests = [file.name for file in artefacts.files if file.name.endswith(".yaml")]
    if manifests and artefacts.platform in ("gke", "kubernetes"):
        yield manifest(
            KUSTOMIZATION,
            [
                {
                    "apiVersion": "kustomize.config.k8s.io/v1beta1",
                    "kind": "Kustomization",
                    "resources": [*manifests],
                }
            ],
        )
