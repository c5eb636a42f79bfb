"""Invariants of Slurm batch scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.sources import SAFETY, SBATCH, TOOLKIT_EXAMPLES


def _scripts(bundle: LintBundle) -> Iterator[ArtefactDocument]:
    return (row for row in bundle.documents if row.kind == "sbatch" and row.root.pairs)


def _gpus_per_node(root: ValueView) -> int:
    for text in (root["gpus-per-node"].text, root["gres"].text):
        match = re.search(r"(\d+)$", text)
        if match and ("gpu" in text or text == root["gpus-per-node"].text):
            return int(match.group(1))
    return 0


def _min_nodes(root: ValueView) -> int:
    match = re.match(r"\d+", root["nodes"].text)
    return int(match.group(0)) if match else 1


@invariant("script-end", applies_to=SBATCH, source=SAFETY)
def script_has_time_limit(bundle: LintBundle) -> Iterator[Finding]:
    """A batch script sets a time limit."""
    for script in _scripts(bundle):
        if not script.root["time"].is_set:
            yield script.root.warning(
                "no time limit: the job runs until the partition's limit",
                "add #SBATCH --time=...",
            )


@invariant("script-whole-nodes", applies_to=SBATCH, source=TOOLKIT_EXAMPLES)
def script_takes_whole_nodes(bundle: LintBundle) -> Iterator[Finding]:
    """A job on several GPU nodes takes whole nodes."""
    for script in _scripts(bundle):
        root = script.root
        is_exclusive = root["exclusive"].is_set or root["mem"].text == "0"
        if _min_nodes(root) > 1 and _gpus_per_node(root) and not is_exclusive:
            yield root.warning(
                "other jobs can share the GPU nodes of this multi-node job",
                "add #SBATCH --exclusive and --mem=0",
            )


@invariant("script-tasks", applies_to=SBATCH, source="Slurm: sbatch")
def tasks_match_gpus(bundle: LintBundle) -> Iterator[Finding]:
    """A script runs one task per node (a launcher) or one per GPU."""
    for script in _scripts(bundle):
        view = script.root["ntasks-per-node"]
        tasks = view.number
        gpus = _gpus_per_node(script.root)
        if tasks and gpus and tasks not in (1, gpus):
            what = f"{tasks:g} tasks for {gpus} GPUs per node"
            yield view.warning(what, f"use 1 (torchrun) or {gpus}")
        overrides_tasks = re.search(r"srun[^\n]*ntasks-per-node", script.text)
        if gpus > 1 and tasks == gpus and "torchrun" in script.text and not overrides_tasks:
            yield view.warning(
                f"torchrun in each of {gpus} tasks per node starts {gpus * gpus} processes",
                "use --ntasks-per-node=1 with torchrun",
            )


@invariant("script-nccl", applies_to=SBATCH, source=TOOLKIT_EXAMPLES)
def script_sources_nccl_settings(bundle: LintBundle) -> Iterator[Finding]:
    """A script that mounts an NCCL plugin sources its settings."""
    for script in _scripts(bundle):
        text = script.text
        if "/usr/local/gib" in text and "set_nccl_env" not in text:
            yield script.root.warning(
                "the gIB plugin is mounted and not used",
                "source /usr/local/gib/scripts/set_nccl_env.sh and set NCCL_NET=gIB",
            )
        if "/var/lib/tcpxo" in text and not re.search(r"nccl-env-profile|NCCL_FASTRAK", text):
            yield script.root.warning(
                "the TCPXO plugin is mounted and not used",
                "source /var/lib/tcpxo/lib64/nccl-env-profile.sh",
            )
