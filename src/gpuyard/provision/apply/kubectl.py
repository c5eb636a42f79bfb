"""Steps that are Kubernetes objects: kubectl applies, finds and deletes them."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document import Plain
from gpuyard.provision.apply.calls import Found, Manifest
from gpuyard.provision.apply.hand import FailedError
from gpuyard.provision.apply.stamp import stamp_of

__all__ = ["KubectlHand"]

TIMEOUT_S = 600.0
FIX = "see what `kubectl` says; then run it again: it goes on where it stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubectlHand:
    """Works on manifests in a folder."""

    folder: Path

    def gap(self, step: Manifest) -> str:
        """What kubectl lacks to work on the step's cluster."""
        if shutil.which("kubectl") is None:
            return "kubectl is not installed"
        known = _kubectl("", "config", "get-contexts", "-o", "name").stdout.split()
        if step.context and step.context not in known:
            return f"kubectl knows no context {step.context}"
        return "" if known else "kubectl knows no cluster"

    def find(self, step: Manifest) -> Found | None:
        """The objects of the file that stand; None where none does, or a kind of them is not known there."""
        done = _kubectl(step.context, "get", "-f", str(self.folder / step.step), "--ignore-not-found", "-o", "json")
        if done.returncode != 0:
            if "no matches for kind" in done.stderr:
                return None
            raise FailedError("kubectl", _last(done.stderr), FIX)
        if not done.stdout.strip():
            return None
        tree: Plain = json.loads(done.stdout)
        items = tree.get("items", [tree]) if isinstance(tree, dict) else []
        return Found(resource=step.step, stamp=stamp_of(tree)) if items else None

    def settle(self, step: Manifest) -> None:
        """kubectl returns when the server has the objects: nothing can come later."""

    def start(self, step: Manifest, request_id: str) -> str:  # noqa: ARG002
        """Applies the file; doing so again changes nothing."""
        done = _kubectl(step.context, "apply", "-f", str(self.folder / step.step))
        if done.returncode != 0:
            raise FailedError("kubectl", _last(done.stderr), FIX)
        return ""

    def finish(self, step: Manifest, operation: str) -> None:
        """Nothing is left to wait for."""

    def start_removal(self, step: Manifest, found: Found, request_id: str) -> str:  # noqa: ARG002
        """Deletes the objects of the file, and waits until they are gone."""
        path = str(self.folder / step.step)
        done = _kubectl(step.context, "delete", "-f", path, "--ignore-not-found", "--wait=true")
        if done.returncode != 0:
            raise FailedError("kubectl", _last(done.stderr), FIX)
        return ""


def _kubectl(context: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs kubectl on a cluster."""
    place = (f"--context={context}",) if context else ()
    return subprocess.run(("kubectl", *place, *words), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def _last(text: str) -> str:
    """The last line of what a program said."""
    return (text.strip().splitlines() or ["it gave no reason"])[-1][:400]
