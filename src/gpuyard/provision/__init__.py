"""What to deploy: artefacts, and the checks that every one of them passes."""

from gpuyard.provision.artefact import Artefact, request_artefact
from gpuyard.provision.finding import Finding, Severity
from gpuyard.provision.lint import Lint, lint

__all__ = ["Artefact", "Finding", "Lint", "Severity", "lint", "request_artefact"]
