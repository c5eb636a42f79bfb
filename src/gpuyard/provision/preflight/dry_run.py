"""Dry runs by the cluster itself: `kubectl apply --dry-run=server` and `sbatch --test-only`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuyard.provision.apply.calls import CallStep, KubernetesObject
from gpuyard.provision.apply.kubectl import KubectlClient, dry_run
from gpuyard.provision.apply.step_client import ApiError
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.preflight.check_row import CheckRow, failed, ok, unknown

SBATCH_TIMEOUT_S = 120.0


def kubectl_rows(steps: Sequence[CallStep], existing: frozenset[str]) -> Iterator[CheckRow]:
    """The API server accepts every object; `existing` are the steps whose cluster exists."""
    for step in steps:
        if not isinstance(step, KubernetesObject):
            continue
        if step.cluster_step and step.cluster_step not in existing:
            yield unknown("dry run", step.what, f"{step.cluster_step} creates its cluster first")
            continue
        missing = KubectlClient().missing_prerequisite(step)
        if missing:
            yield unknown("dry run", step.what, missing, "install and configure kubectl")
            continue
        try:
            dry_run(step)
        except ApiError as error:
            yield failed("dry run", step.what, error.what, error.fix)
        else:
            yield ok("dry run", step.what, "accepted by the API server")


def sbatch_rows(artefacts: Sequence[Artefact], folder: Path) -> Iterator[CheckRow]:
    """The Slurm controller accepts the script and says when it would start."""
    for artefact in artefacts:
        if not artefact.name.endswith(".sbatch"):
            continue
        if shutil.which("sbatch") is None:
            fix = "run this command on the login node"
            yield unknown("dry run", artefact.name, "sbatch is not installed here", fix)
            continue
        try:
            result = subprocess.run(
                ("sbatch", "--test-only", str(folder / artefact.name)),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SBATCH_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            what = f"sbatch does not answer: {error}"
            yield unknown("dry run", artefact.name, what, "check slurmctld with `scontrol ping`")
            continue
        lines = result.stderr.strip().splitlines() or result.stdout.strip().splitlines()
        text = lines[-1] if lines else "no reason given"
        if result.returncode:
            fix = "request what the partition has, or wait for its nodes"
            yield failed("dry run", artefact.name, text, fix)
        else:
            yield ok("dry run", artefact.name, text.removeprefix("sbatch: "))
