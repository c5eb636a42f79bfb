"""Validation of files that gpuyard writes for later commands: blueprint, deployment, fabric."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuyard.blueprint.saved import blueprint_from_json
from gpuyard.errors import Finding, InputError
from gpuyard.fabric.saved import from_json
from gpuyard.provision.artefact_document import ArtefactDocument
from gpuyard.provision.deployment import deployment_from_json

# By the name of their format; the reader reports a version that it does not know.
RECORDS: dict[str, Callable[[str, str], object]] = {
    "gpuyard-blueprint": blueprint_from_json,
    "gpuyard-deployment": deployment_from_json,
    "gpuyard-fabric": from_json,
}


def record_findings(document: ArtefactDocument) -> Iterator[Finding]:
    """Yield why a later command would reject the file: edited by hand, or another version."""
    try:
        RECORDS[document.type](document.text, document.file)
    except InputError as error:
        for problem in error.problems:
            yield problem.as_finding("record")
