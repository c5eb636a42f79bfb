"""Client for steps that are Kubernetes objects, through kubectl."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.apply.api_errors import RESUME
from gpuyard.provision.apply.calls import ExistingResource, KubernetesObject
from gpuyard.provision.apply.ownership_labels import object_labels
from gpuyard.provision.apply.step_client import ApiError

TIMEOUT_S = 600.0
FIX = f"fix the error that kubectl reports, then {RESUME}"
# What kubectl says if the cluster lacks the custom resource definition of an object.
UNKNOWN_TYPE = ("no matches for kind", "the server doesn't have a resource type")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubectlClient:
    """Applies, finds and deletes objects one at a time; no file is read after its checks."""

    def missing_prerequisite(self, step: KubernetesObject) -> str:
        """Return what kubectl lacks to reach the step's cluster."""
        if shutil.which("kubectl") is None:
            return "kubectl is not installed"
        contexts = _kubectl("", "config", "get-contexts", "-o", "name").stdout.split()
        if step.context and step.context not in contexts:
            return f"kubectl has no context {step.context}"
        return "" if contexts else "kubectl has no context"

    def find(self, step: KubernetesObject) -> ExistingResource | None:
        """Return the object if it exists, with its own labels."""
        tree = live_object(step)
        if tree is None:
            return None
        return ExistingResource(path=step.reference, labels=object_labels(tree))

    def wait_for_inflight_calls(self, step: KubernetesObject) -> None:
        """Do nothing: kubectl returns when the server has the object."""

    def start(self, step: KubernetesObject, request_id: str) -> str:  # noqa: ARG002
        """Apply the object, which is idempotent."""
        _check(_kubectl(step.context, "apply", "-f", "-", text=step.body))
        return ""

    def finish(self, step: KubernetesObject, operation: str) -> None:
        """Do nothing: kubectl has already waited."""

    def start_deletion(
        self,
        step: KubernetesObject,
        existing: ExistingResource,  # noqa: ARG002
        request_id: str,  # noqa: ARG002
    ) -> str:
        """Delete the object and wait until it is gone."""
        _check(_on_object(step, "delete", "--ignore-not-found", "--wait=true"))
        return ""


def dry_run(step: KubernetesObject) -> None:
    """Send the object without storing it; raise ApiError if the server rejects it."""
    _check(_kubectl(step.context, "apply", "--dry-run=server", "-f", "-", text=step.body))


def live_object(step: KubernetesObject) -> dict[str, Plain] | None:
    """Return the object as the server has it; None if there is none."""
    result = _on_object(step, "get", "--ignore-not-found", "--output=json")
    if result.returncode != 0 and any(text in result.stderr for text in UNKNOWN_TYPE):
        return None
    _check(result)
    tree: Plain = json.loads(result.stdout) if result.stdout.strip() else None
    return tree if isinstance(tree, dict) else None


def _on_object(
    step: KubernetesObject, verb: str, *options: str
) -> subprocess.CompletedProcess[str]:
    place = (f"--namespace={step.namespace}",) if step.namespace else ()
    return _kubectl(step.context, verb, *place, *options, "--", step.type, step.name)


def _kubectl(context: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = ("kubectl", *((f"--context={context}",) if context else ()), *arguments)
    return subprocess.run(
        command, capture_output=True, input=text, text=True, timeout=TIMEOUT_S, check=False
    )


def _check(result: subprocess.CompletedProcess[str]) -> None:
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or ["no reason given"]
        raise ApiError("kubectl", lines[-1][:400], FIX)
